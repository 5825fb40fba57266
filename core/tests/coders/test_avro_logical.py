"""Logical types where the reader's differs from the writer's: the value stays the same."""

import datetime
import uuid

import pyarrow as pa
import pytest

from penstock.coders.avro import container
from penstock.coders.avro.coder import AvroCoder
from penstock.contracts.errors import SchemaError

NOON = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
IDENT = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
COUNTS = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
UUID = {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}
RAW = {"type": "fixed", "name": "u", "size": 16}


def record(kind):
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}


def logical(kind, name):
    return record({"type": kind, "logicalType": name})


def number(value):
    """A zigzag varint."""
    value, out = value << 1 if value >= 0 else (~value << 1) | 1, b""
    while value > 0x7F:
        value, out = value >> 7, out + bytes([value & 0x7F | 0x80])
    return out + bytes([value])


def file_of(writer, *records):
    body = b"".join(records)
    head = container.header(writer) + number(len(records)) + number(len(body))
    return head + body + container.SYNC


def both(writer, reader, raw):
    """What a record is alone, and what it is in a file."""
    alone = AvroCoder(schema=reader, writer=writer).decode(pa.array([raw], pa.binary()))
    inside = AvroCoder(schema=reader, framing="container").decode(
        pa.array([file_of(writer, raw)], pa.binary())
    )
    assert (alone.errors, inside.errors) == ((), ())
    assert alone.rows.equals(inside.rows)
    return alone.rows.column(0)[0].as_py()


@pytest.mark.parametrize("reader", COUNTS)
@pytest.mark.parametrize("writer", COUNTS)
@pytest.mark.parametrize("name", ["timestamp", "local-timestamp"])
def test_a_timestamp_is_counted_in_the_writers_unit(name, writer, reader):
    raw = number(int(NOON.timestamp()) * COUNTS[writer])
    kinds = logical("long", f"{name}-{writer}"), logical("long", f"{name}-{reader}")
    assert both(*kinds, raw).replace(tzinfo=datetime.UTC) == NOON


def test_a_time_of_day_is_counted_in_the_writers_unit():
    writer, reader = logical("int", "time-millis"), logical("long", "time-micros")
    assert both(writer, reader, number(1500)) == datetime.time(0, 0, 1, 500_000)


def test_a_timestamp_read_as_a_number_is_the_number_that_was_written():
    count = int(NOON.timestamp()) * 1000
    assert both(logical("long", "timestamp-millis"), record("long"), number(count)) == count
    found = both(record("long"), logical("long", "timestamp-millis"), number(count))
    assert found == NOON


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (logical("int", "date"), logical("long", "timestamp-micros")),
        (logical("int", "time-millis"), logical("long", "timestamp-micros")),
        (logical("int", "date"), logical("int", "time-millis")),
    ],
)
def test_days_are_not_read_as_moments(writer, reader):
    with pytest.raises(SchemaError, match="cannot read"):
        AvroCoder(schema=reader, writer=writer).decode(pa.array([], pa.binary()))


def test_the_reader_says_whether_sixteen_bytes_are_a_uuid():
    assert both(record(UUID), record(UUID), IDENT.bytes) == str(IDENT)
    assert both(record(RAW), record(UUID), IDENT.bytes) == str(IDENT)
    assert both(record(UUID), record(RAW), IDENT.bytes) == IDENT.bytes


def test_a_value_out_of_range_in_a_file_is_an_error_of_that_file():
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}
    good, bad = file_of(record(kind), b"\x02\x01"), file_of(record(kind), b"\x02\x01", b"\x02\x64")
    coder = AvroCoder(schema=record(kind), framing="container")
    done = coder.decode(pa.array([good, bad, good], pa.binary()))
    assert [int(each.as_py()) for each in done.rows.column(0)] == [1, 1]
    assert [error.row for error in done.errors] == [1]
    assert "precision" in done.errors[0].message


@pytest.mark.parametrize("name", ["timestamp-nanos", "local-timestamp-nanos"])
def test_a_moment_that_nanoseconds_cannot_count_is_an_error_of_its_row(name):
    coder = AvroCoder(schema=logical("long", name))
    zone = datetime.UTC if name.startswith("timestamp") else None
    moments = [datetime.datetime(year, 1, 1, tzinfo=zone) for year in (2262, 3000, 1678, 1500)]
    rows = pa.RecordBatch.from_pylist([{"a": each} for each in moments], schema=coder.schema())
    done = coder.encode(rows)
    assert [error.row for error in done.errors] == [1, 3]
    assert "nanoseconds" in done.errors[0].message
    assert coder.decode(done.values).rows.column(0).to_pylist() == [moments[0], moments[2]]
