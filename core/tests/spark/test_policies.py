"""What `on_error` says holds at both ends too: what a source cannot read, what a sink refuses."""

import pyarrow as pa
import pytest

import penstock as pen
from core.tests.spark import local
from core.tests.spark.local import Rig
from penstock.contracts.envelope import ERROR, PEN_FIELD
from penstock.contracts.envelope import pen as meta_of
from penstock.pipeline.chain import Chain, StageFailed
from penstock.pipeline.graph import Policy
from penstock.spark.fused import Fused

tasks = local.tasks
pytestmark = pytest.mark.usefixtures("tasks")

ROWS = pa.schema([pa.field("n", pa.int64()), PEN_FIELD])


def read(*bad, count=5):
    """Rows of a typed source, some of which it could not read."""
    nothing = dict.fromkeys(ERROR.names)
    errors = [
        nothing | {"kind": "BadLine", "message": f"line {n}"} if n in bad else None
        for n in range(count)
    ]
    meta = meta_of(count, error=pa.array(errors, ERROR))
    numbers = pa.array([None if n in bad else n for n in range(count)], pa.int64())
    return pa.RecordBatch.from_arrays([numbers, meta], schema=ROWS)


def reader(action):
    return Fused("orders", Chain((), ROWS), policy=Policy(action=action))


def test_what_a_source_cannot_read_becomes_a_letter_of_its_node_and_counts_as_an_error():
    rows, counts = reader("dead-letter").run(read(1, 3))
    told = [row["_pen"]["error"] for row in rows.to_pylist() if row["_pen"]["error"]]
    assert [(error["node"], error["message"]) for error in told] == [
        ("orders", "line 1"),
        ("orders", "line 3"),
    ]
    assert (counts["orders"].rows_out, counts["orders"].errors) == (3, 2)
    assert counts["orders"].skipped == 0


def test_what_a_source_cannot_read_is_skipped_and_counted():
    rows, counts = reader("skip").run(read(1, 3))
    assert [row["n"] for row in rows.to_pylist()] == [0, 2, 4]
    assert (counts["orders"].rows_out, counts["orders"].skipped) == (3, 2)
    assert counts["orders"].errors == 0


def test_what_a_source_cannot_read_stops_the_pipeline():
    with pytest.raises(StageFailed, match="could not be read: BadLine: line 1") as caught:
        reader("stop").run(read(1, 3))
    assert "orders" in str(caught.value)
    assert 'on_error="dead-letter"' in caught.value.fix
    assert reader("stop").run(read())[0].num_rows == 5


def broken_lines(rows):
    """Every tenth value cannot be a line of a file."""
    values = [
        b"two\nlines" if at % 10 == 7 else value
        for at, value in enumerate(rows.column("value").to_pylist())
    ]
    at = rows.schema.get_field_index("value")
    return rows.set_column(at, rows.schema.field(at), pa.array(values, pa.binary()))


@pytest.fixture(params=[False, True], ids=["through-spark", "in-the-reader"])
def whole(request, monkeypatch):
    monkeypatch.setattr("penstock.pipeline.analyse.THROUGH", request.param)


def refusing(tmp_path, action):
    flow = (
        pen.pipeline("refusing")
        .source("generator", rows=100)
        .map_batches(broken_lines)
        .sink("localfile", name="out", path=str(tmp_path / "out"), on_error=action)
    )
    return Rig(flow, tmp_path / "state")


def lines(tmp_path):
    files = [p for p in (tmp_path / "out").glob("*") if p.is_file() and p.name[0] not in "._"]
    return [line for file in files for line in file.read_text().splitlines()]


@pytest.mark.parametrize(
    ("action", "letters", "errors", "skipped"), [("dead-letter", 10, 10, 0), ("skip", 0, 0, 10)]
)
def test_what_a_sink_refuses_is_kept_aside_or_skipped(
    tmp_path, whole, action, letters, errors, skipped
):
    rig = refusing(tmp_path, action)
    count = rig.drain().totals["out"]
    assert rig.letters.table().num_rows == letters
    assert (count.rows_in, count.errors, count.skipped) == (100, errors, skipped)
    assert len(lines(tmp_path)) == 90


def test_what_a_sink_refuses_stops_the_pipeline_and_nothing_is_published(tmp_path, whole):
    rig = refusing(tmp_path, "stop")
    with pytest.raises(StageFailed, match="the value holds a newline") as caught:
        rig.drain()
    assert "out" in str(caught.value)
    assert lines(tmp_path) == []
    assert rig.letters.table().num_rows == 0
