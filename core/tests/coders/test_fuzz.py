"""Damaged records among whole ones, for every coder and framing: seeded, and bounded in time."""

import random
import time

import pyarrow as pa
import pytest

from core.tests.coders.orders_pb2 import Order
from penstock.coders.avro.coder import AvroCoder
from penstock.coders.csv import CsvCoder
from penstock.coders.json import JsonCoder
from penstock.coders.protobuf.coder import ProtobufCoder
from penstock.coders.text import TextCoder
from penstock.coders.xml.coder import XmlCoder

ROUNDS = 60
SECONDS = 30
COLUMNS = (
    "id BIGINT, name STRING, ratio DOUBLE, tags ARRAY<STRING>, place STRUCT<street: STRING, n: INT>"
)
FLAT = "id BIGINT, name STRING, ratio DOUBLE, at TIMESTAMP"
MAPPED = COLUMNS + ", counts MAP<STRING, BIGINT>"
NASTY = [b"\xff" * 10, b"\x80" * 9 + b"\x01", b"\xfe" + b"\xff" * 8 + b"\x01", b"\x00" * 8]
NASTY += [b'"', b"<", b"&a;", b"{" * 50, b"[" * 50, b"\xef\xbb\xbf", b"\r\n", b"1e999", b"]]>"]


def registered(cls, registry, **options):
    settings = {"framing": "registry", "registry": {"url": registry.url}, "topic": "t"}
    return cls(register=True, **settings, **options)


CODERS = {
    "text": lambda _: TextCoder(),
    "json": lambda _: JsonCoder(schema=COLUMNS),
    "json with a map": lambda _: JsonCoder(schema=MAPPED),
    "json in an array": lambda _: JsonCoder(schema=COLUMNS, layout="array"),
    "json by line": lambda _: JsonCoder(schema=COLUMNS, layout="lines"),
    "json behind an id": lambda registry: registered(JsonCoder, registry, schema=COLUMNS),
    "csv": lambda _: CsvCoder(schema=FLAT),
    "csv by line": lambda _: CsvCoder(schema=FLAT, layout="lines", header=True),
    "xml": lambda _: XmlCoder(schema=COLUMNS),
    "xml by path": lambda _: XmlCoder(
        schema="name STRING", row="//place", paths={"name": "street"}
    ),
    "avro": lambda _: AvroCoder(schema=MAPPED),
    "avro single object": lambda _: AvroCoder(schema=MAPPED, framing="single-object"),
    "avro file": lambda _: AvroCoder(schema=MAPPED, framing="container"),
    "avro behind an id": lambda registry: registered(AvroCoder, registry, schema=MAPPED),
    "protobuf": lambda _: ProtobufCoder(schema=Order),
    "protobuf behind an id": lambda registry: registered(ProtobufCoder, registry, schema=Order),
}


def value(kind, pick):
    """Any value of a type, now and then a null."""
    if pa.types.is_struct(kind):
        return {f.name: value(f.type, pick) for f in kind}
    if pa.types.is_map(kind):
        keys = [value(kind.key_type, pick) for _ in range(pick.randrange(3))]
        return [(key, value(kind.item_type, pick)) for key in dict.fromkeys(keys)]
    if pa.types.is_list(kind):
        return [value(kind.value_type, pick) for _ in range(pick.randrange(4))]
    if pa.types.is_string(kind):
        return "".join(pick.choices('aé<&"\\, 1', k=pick.randrange(8)))
    if pa.types.is_binary(kind):
        return pick.randbytes(pick.randrange(6))
    if pa.types.is_boolean(kind):
        return pick.random() < 0.5
    return pick.randrange(2**20)


def rows(schema, pick):
    found = []
    for _ in range(12):
        row = {f.name: value(f.type, pick) for f in schema}
        if "left" in row:
            row |= {"status": "PAID", "statuses": [], "right": None}
        found.append(row)
    return pa.RecordBatch.from_pylist(found, schema=schema)


def damaged(value, pick):
    at, end = pick.randrange(len(value) + 1), pick.randrange(len(value) + 1)
    return pick.choice(
        [
            lambda: value[:at],
            lambda: value[at:],
            lambda: value[:at] + pick.randbytes(1 + pick.randrange(4)) + value[at + 1 :],
            lambda: value[:at] + pick.choice(NASTY) + value[at:],
            lambda: value[:at] + pick.choice(NASTY) + value[at + 8 :],
            lambda: value[:at] + value[min(at, end) : end] * 3 + value[at:],
            lambda: pick.randbytes(len(value)),
        ]
    )()


def outputs(done, count):
    """What became of each input row: its output rows, and whether it is an error."""
    found = [[] for _ in range(count)]
    origin = range(count) if done.origin is None else done.origin.to_pylist()
    for row, each in zip(origin, done.rows.to_pylist(), strict=True):
        found[row].append(each)
    return found


@pytest.mark.parametrize("name", CODERS)
def test_damaged_records_are_rows_or_errors_and_their_neighbours_are_whole(
    name, registry, penstock_seed
):
    pick = random.Random(f"{penstock_seed} {name}")
    coder = CODERS[name](registry)
    if name == "xml by path":
        made = XmlCoder(schema=COLUMNS)
        whole = made.encode(rows(made.schema(), pick))
    else:
        whole = coder.encode(rows(coder.schema(), pick))
    assert whole.errors == ()
    values = whole.values.to_pylist()
    expected = outputs(coder.decode(whole.values), len(values))
    assert any(expected)
    start = time.monotonic()
    errors = 0
    for _ in range(ROUNDS):
        hit = set(pick.sample(range(len(values)), 4))
        mixed = [damaged(v, pick) if row in hit else v for row, v in enumerate(values)]
        done = coder.decode(pa.array(mixed, pa.binary()))
        found = outputs(done, len(values))
        assert [f for row, f in enumerate(found) if row not in hit] == [
            f for row, f in enumerate(expected) if row not in hit
        ]
        for error in done.errors:
            assert error.row in hit
            assert not found[error.row]
            assert error.kind.endswith("Error")
            assert 0 < len(error.message) <= 500
        errors += len(done.errors)
    assert errors
    assert time.monotonic() - start < SECONDS
