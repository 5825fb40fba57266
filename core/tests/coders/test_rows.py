import datetime

import pyarrow as pa
import pytest

from penstock import registry
from penstock.coders.json import JsonCoder
from penstock.coders.rows import decode_rows, decoded_schema, encode_rows
from penstock.contracts.envelope import UNDECODED, pen, stamps
from penstock.contracts.errors import SchemaError

AT = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


def undecoded(*values):
    count = len(values)
    meta = pen(count, stamp=stamps("o", "p", pa.array(range(count), pa.int64())))
    columns = [pa.array(values, pa.binary()), pa.array([AT] * count, UNDECODED.field(1).type), meta]
    return pa.RecordBatch.from_arrays(columns, schema=UNDECODED)


def positions(rows):
    return [row["stamp"]["position"] for row in rows.column("_pen").to_pylist()]


def test_each_decoded_row_keeps_its_messages_stamp():
    coder = JsonCoder(schema="id INT", layout="lines")
    given = undecoded(b'{"id":1}\n{"id":2}', None, b"bad", b'{"id":3}')
    rows, origin, errors = decode_rows(given, coder)
    assert rows.schema == decoded_schema(coder)
    assert rows.column("id").to_pylist() == [1, 2, 3]
    assert positions(rows) == origin.to_pylist() == [0, 0, 3]
    assert [error.row for error in errors] == [2]


def test_a_column_named_event_time_is_the_rows_event_time():
    coder = JsonCoder(schema="id INT, event_time TIMESTAMP")
    given = undecoded(b'{"id":1,"event_time":"2020-01-01T00:00:00Z"}', b'{"id":2}')
    rows, origin, _ = decode_rows(given, coder)
    assert rows.schema == decoded_schema(coder)
    assert rows.schema.names == ["id", "event_time", "_pen"]
    assert rows.column("event_time").to_pylist() == [AT.replace(year=2020, day=1), AT]
    assert origin is None


@pytest.mark.parametrize("schema", ["_pen INT", "event_time STRING"])
def test_reserved_names_are_refused(schema):
    with pytest.raises(SchemaError):
        decoded_schema(JsonCoder(schema=schema))


def test_rows_that_cannot_be_encoded_are_left_out_and_named():
    coder = JsonCoder(schema="x DOUBLE")
    given = undecoded(b'{"x":1}', b'{"x":2}', b'{"x":3}')
    rows, _, _ = decode_rows(given, coder)
    broken = rows.set_column(0, "x", pa.array([1.0, float("inf"), 3.0]))
    back, origin, errors = encode_rows(broken, coder)
    assert back.schema == UNDECODED
    assert back.column("value").to_pylist() == [b'{"x":1}', b'{"x":3}']
    assert positions(back) == origin.to_pylist() == [0, 2]
    assert [error.row for error in errors] == [1]


@pytest.mark.parametrize("name", ["json", "csv", "xml", "avro"])
def test_a_value_that_cannot_be_cast_is_an_error_of_its_row(name):
    coder = registry.coder(name)(schema="id INT, name STRING")
    given = {"id": [1, 2**40, 3, -(2**40)], "name": ["a", "b", "c", "d"]}
    done = coder.encode(pa.RecordBatch.from_pydict(given))
    assert done.values.is_null().to_pylist() == [False, True, False, True]
    assert [error.row for error in done.errors] == [1, 3]
    assert "id" in done.errors[0].message
    assert "int32" in done.errors[0].message
    assert coder.decode(done.values).rows.column("id").to_pylist() == [1, 3]
    with pytest.raises(SchemaError, match="missing"):
        coder.encode(pa.RecordBatch.from_pydict({"id": [1]}))
