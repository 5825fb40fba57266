"""A reader's schema given as columns, against records that somebody else wrote."""

import datetime
import decimal
import io
import json
import uuid

import attrs
import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from penstock.coders.avro.coder import AvroCoder
from penstock.contracts.errors import SchemaError


def named(kind, name, **more):
    return {"type": kind, "name": name, **more}


def decimals(kind, **more):
    return {"type": kind, "logicalType": "decimal", "precision": 8, "scale": 2, **more}


LINE = named(
    "record",
    "Line",
    fields=[{"name": "sku", "type": "string"}, {"name": "count", "type": ["null", "int"]}],
)
WRITER = named(
    "record",
    "Order",
    namespace="org.example",
    fields=[
        {"name": "id", "type": "int"},
        {"name": "extra", "type": {"type": "map", "values": "long"}},
        {"name": "state", "type": named("enum", "State", symbols=["NEW", "PAID"])},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "first", "type": ["null", "Line"]},
        {
            "name": "total",
            "type": named(
                "fixed", "Total", size=8, **{k: v for k, v in decimals("").items() if k != "type"}
            ),
        },
        {"name": "mark", "type": named("fixed", "Mark", size=3)},
        {"name": "ident", "type": {"type": "string", "logicalType": "uuid"}},
    ],
)
IDENT = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
AT = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
ORDER = {
    "id": 7,
    "extra": {"a": 1},
    "state": "PAID",
    "at": AT,
    "lines": [{"sku": "x", "count": 2}, {"sku": "y", "count": None}],
    "first": {"sku": "x", "count": 2},
    "total": decimal.Decimal("12.50"),
    "mark": b"abc",
    "ident": IDENT,
}
COLUMNS = (
    "id BIGINT, state STRING, at TIMESTAMP, lines ARRAY<STRUCT<sku: STRING, count: BIGINT>>, "
    "first STRUCT<sku: STRING, count: BIGINT>, total DECIMAL(10, 2), mark BINARY, ident STRING, "
    "note STRING"
)
ROW = {
    "id": 7,
    "state": "PAID",
    "at": AT,
    "lines": ORDER["lines"],
    "first": ORDER["first"],
    "total": decimal.Decimal("12.50"),
    "mark": b"abc",
    "ident": str(IDENT),
    "note": None,
}


@attrs.define
class Line:
    sku: str
    count: int | None = None


@attrs.define
class Order:
    id: int
    state: str
    at: datetime.datetime
    lines: list[Line]


def arrow():
    return AvroCoder(schema=COLUMNS).schema()


READERS = {"DDL": lambda: COLUMNS, "Arrow": arrow, "a class": lambda: Order}


def value():
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(WRITER), ORDER)
    return out.getvalue()


def checked(done):
    assert done.errors == ()
    names = done.rows.schema.names
    assert len(names) >= 4
    assert done.rows.to_pylist() == [{name: ROW[name] for name in names}]


@pytest.mark.parametrize("reader", READERS)
def test_columns_read_bare_records_and_single_objects_of_another_writer(reader):
    schema = READERS[reader]()
    checked(AvroCoder(schema=schema, writer=WRITER).decode(pa.array([value()], pa.binary())))
    theirs = AvroCoder(schema=WRITER, framing="single-object")
    one = theirs.encode(AvroCoder(schema=WRITER).decode(pa.array([value()], pa.binary())).rows)
    ours = AvroCoder(schema=schema, writer=WRITER, framing="single-object")
    checked(ours.decode(one.values))


@pytest.mark.parametrize("reader", READERS)
def test_columns_read_files_of_another_writer(reader):
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(WRITER), [ORDER], codec="deflate")
    coder = AvroCoder(schema=READERS[reader](), framing="container")
    checked(coder.decode(pa.array([out.getvalue()], pa.binary())))


@pytest.mark.parametrize("reader", READERS)
def test_columns_read_what_is_behind_a_registrys_id(registry, reader):
    client = SchemaRegistryClient({"url": registry.url})
    number = client.register_schema("orders-value", Schema(json.dumps(WRITER), "AVRO"))
    settings = {"framing": "registry", "registry": {"url": registry.url}}
    coder = AvroCoder(schema=READERS[reader](), subject="orders-value", **settings)
    raw = b"\x00" + number.to_bytes(4, "big") + value()
    checked(coder.decode(pa.array([raw], pa.binary())))
    checked(coder.narrowed(coder.schema().names).decode(pa.array([raw], pa.binary())))


@pytest.mark.parametrize(
    ("columns", "word"), [("id STRING", "id"), ("lines ARRAY<STRUCT<sku: INT>>", "sku")]
)
def test_columns_that_cannot_hold_what_was_written_are_refused_by_name(columns, word):
    with pytest.raises(SchemaError, match=word):
        AvroCoder(schema=columns, writer=WRITER).decode(pa.array([], pa.binary()))


def test_an_avro_schema_still_goes_by_its_names():
    other = {**WRITER, "name": "Another"}
    with pytest.raises(SchemaError, match="cannot read"):
        AvroCoder(schema=other, writer=WRITER).decode(pa.array([], pa.binary()))
