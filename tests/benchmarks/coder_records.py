"""What the coders' benchmarks carry: a flat record and a nested one, seeded."""

import datetime
import decimal
import io
import random
import uuid
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa

SEED = 5
BATCH = 16_384

FLAT: dict[str, Any] = {
    "type": "record",
    "name": "flat",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "score", "type": "double"},
        {"name": "active", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "city", "type": ["null", "string"]},
    ],
}
LINE = {
    "type": "record",
    "name": "line",
    "fields": [
        {"name": "sku", "type": "string"},
        {"name": "qty", "type": "int"},
        {"name": "price", "type": "double"},
    ],
}
CUSTOMER = {
    "type": "record",
    "name": "customer",
    "fields": [{"name": "name", "type": "string"}, {"name": "vip", "type": "boolean"}],
}
NESTED: dict[str, Any] = {
    "type": "record",
    "name": "nested",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "total",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        },
        {"name": "status", "type": {"type": "enum", "name": "status", "symbols": ["NEW", "PAID"]}},
        {"name": "customer", "type": CUSTOMER},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "note", "type": ["null", "string"]},
    ],
}
DDL = "id BIGINT, name STRING, score DOUBLE, active BOOLEAN, at TIMESTAMP, city STRING"


def flat(number: int, pick: random.Random) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"user {number}",
        "score": pick.random() * 100,
        "active": number % 2 == 0,
        "at": _moment(number),
        "city": pick.choice([None, "Paris", "Berlin", "Oslo"]),
    }


def nested(number: int, pick: random.Random) -> dict[str, Any]:
    lines = [{"sku": f"s{k}", "qty": k, "price": k * 1.5} for k in range(pick.randrange(5))]
    return {
        "id": str(uuid.UUID(int=pick.getrandbits(128))),
        "at": _moment(number),
        "total": decimal.Decimal(pick.randrange(10**6)) / 100,
        "status": pick.choice(["NEW", "PAID"]),
        "customer": {"name": f"c{number}", "vip": number % 3 == 0},
        "lines": lines,
        "tags": {f"k{k}": "v" for k in range(pick.randrange(3))},
        "note": pick.choice([None, "a note of some length"]),
    }


def _moment(number: int) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=number)


def records(make: Callable[[int, random.Random], Any], count: int) -> list[Any]:
    pick = random.Random(SEED)
    return [make(number, pick) for number in range(count)]


def avro(schema: Any, objects: list[Any]) -> pa.Array:
    parsed = fastavro.parse_schema(schema)
    values = []
    for each in objects:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, each)
        values.append(out.getvalue())
    return pa.array(values, pa.binary())
