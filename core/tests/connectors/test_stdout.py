import json

import pyarrow as pa

from penstock.connectors.stdout import StdoutSink
from penstock.contracts import Batch, Context


def printed(sink, rows, capsys):
    writer = sink.open(Batch(Context(), 0), 0, 0, rows.schema)
    writer.write(rows)
    receipt = writer.close()
    return capsys.readouterr().out.splitlines(), receipt


def test_a_value_prints_as_it_is(capsys):
    rows = pa.record_batch({"value": pa.array([b"one", "zwei ü".encode(), b"\xff"])})
    lines, receipt = printed(StdoutSink(), rows, capsys)
    assert lines == ["one", "zwei ü", "\\xff"]
    assert receipt.rows == 3


def test_columns_print_as_json_without_the_reserved_one(capsys):
    rows = pa.record_batch({"n": pa.array([1]), "_pen": pa.array([{"id": "x"}])})
    lines, _ = printed(StdoutSink(), rows, capsys)
    assert json.loads(lines[0]) == {"n": 1}


def test_the_limit_bounds_what_is_printed_not_what_is_counted(capsys):
    rows = pa.record_batch({"value": pa.array([b"x"] * 10)})
    lines, receipt = printed(StdoutSink(limit=2), rows, capsys)
    assert len(lines) == 2
    assert receipt.rows == 10
