"""The suites of the coders in the core."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock import registry
from penstock.conformance.coders import CoderCase, CoderSuite
from penstock.contracts.options import parse

DDL = (
    "id BIGINT, name STRING, price DECIMAL(10,2), at TIMESTAMP, day DATE, raw BINARY, ok BOOLEAN, "
    "tags ARRAY<STRING>, place STRUCT<street: STRING, zip: INT>"
)
FLAT = "id BIGINT, name STRING, price DECIMAL(10,2), at TIMESTAMP, day DATE, raw BINARY, x DOUBLE"
DEEP = 200_000
_FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"], "default": None},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
]
_MAIL = {"name": "mail", "type": ["null", "string"], "default": None}
AVRO = {"type": "record", "name": "r", "fields": _FIELDS}
LATER = {"type": "record", "name": "r", "fields": [*reversed(_FIELDS), _MAIL]}


def made(coder: str, **options: Any) -> Any:
    return parse(registry.coder(coder), options)


def rows_of(schema: pa.Schema) -> Callable[[int, random.Random], pa.RecordBatch]:
    def make(count: int, chance: random.Random) -> pa.RecordBatch:
        rows = [
            {"id": n, "name": chance.choice([None, "x"]), "tags": ["a"] * chance.randrange(4)}
            for n in range(count)
        ]
        return pa.RecordBatch.from_pylist(rows, schema=schema)

    return make


class TestBytes(CoderSuite):
    coder = "bytes"

    @pytest.fixture
    def case(self) -> CoderCase:
        return CoderCase(options={}, nulls=0)


class TestText(CoderSuite):
    coder = "text"

    @pytest.fixture
    def case(self) -> CoderCase:
        return CoderCase(options={}, bad=[b"\xff", b"a\xc3"], hostile=[b"\xff" * 10**6], nulls=0)


class TestJson(CoderSuite):
    coder = "json"

    @pytest.fixture
    def case(self) -> CoderCase:
        return CoderCase(
            options={"schema": DDL},
            bad=[b"", b"[]", b'{"id":"x"}', b'{"id":1}{"id":2}', b'{"id":', b'{"name":"\xff"}'],
            hostile=[
                b'{"tags":' + b"[" * DEEP + b"]" * DEEP + b"}",
                b'{"zz":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
                b"{" * DEEP,
                b'{"id":' + b"9" * DEEP + b"}",
                b'{"name":"' + b"\\u0000" * DEEP + b'"}',
                b'{"price":1e999999999}',
            ],
            older={"schema": "id BIGINT"},
            newer={"schema": "name STRING, id BIGINT"},
        )


class TestJsonWithMaps(CoderSuite):
    coder = "json"

    @pytest.fixture
    def case(self) -> CoderCase:
        return CoderCase(
            options={"schema": "id BIGINT, m MAP<STRING, DOUBLE>"},
            bad=[b"", b'{"m":{"a":"x"}}', b'{"m":[]}', b'{"id":99999999999999999999}'],
            hostile=[
                b'{"m":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
                b'{"id":' + b"9" * DEEP + b"}",
            ],
        )


class TestJsonArrays(CoderSuite):
    coder = "json"

    @pytest.fixture
    def case(self) -> CoderCase:
        return CoderCase(
            options={"schema": DDL, "layout": "array"},
            bad=[b"", b"{}", b"[{}", b'[{"id":"x"}]', b"[1]", b"[{}]]"],
            hostile=[b"[" * DEEP + b"]" * DEEP, b"[" + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"]"],
        )


class TestCsv(CoderSuite):
    coder = "csv"

    @pytest.fixture
    def case(self) -> CoderCase:
        return CoderCase(
            options={"schema": FLAT},
            bad=[b"", b"1", b"x,,,,,,", b'1,"a,,,,,', b"1,a,,,,,,8"],
            hostile=[b'"' * DEEP, b"," * DEEP, b"\n" * DEEP, b"9" * DEEP + b",,,,,,"],
        )


class TestXml(CoderSuite):
    coder = "xml"

    @pytest.fixture
    def case(self) -> CoderCase:
        return CoderCase(
            # XML cannot tell an empty list from none.
            options={"schema": DDL.replace("tags ARRAY<STRING>, ", ""), "trim": False},
            bad=[b"", b"<a>", b"<a><id>x</id></a>", b"<a/><b/>", b"<!DOCTYPE a><a/>"],
            hostile=[b"<a>" * DEEP, b"<a " + b'b="c" ' * 1000, b"<a>" + b"&#65;" * DEEP + b"</a>"],
            older={"schema": "id BIGINT"},
            newer={"schema": "name STRING, id BIGINT"},
        )


class TestAvro(CoderSuite):
    coder = "avro"

    @pytest.fixture
    def case(self) -> CoderCase:
        return CoderCase(
            options={"schema": json.dumps(AVRO)},
            rows=rows_of(made("avro", schema=AVRO).schema()),
            bad=[b"", b"\x02", b"\x02\x04", b"\x02\x00\x02", b"\x02\x00\x00\x00", b"\xff" * 11],
            hostile=[
                b"\x02\x00" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                b"\x02\x00" + b"\x02\x00" * DEEP,
                b"\x02\x00" + b"\x01\x00" * DEEP,
                b"\x02\x02" + b"\xff" * 20,
            ],
            older={"schema": json.dumps(AVRO)},
            newer={"schema": json.dumps(LATER)},
            # Without a registry a reader must be told the writer's schema.
            told=lambda reader, writer: {**reader, "writer": writer["schema"]},
            nulls=0,
        )


class TestAvroFiles(CoderSuite):
    coder = "avro"

    @pytest.fixture
    def case(self) -> CoderCase:
        import fastavro

        out = io.BytesIO()
        record = {"id": 1, "name": "x", "tags": ["a"] * 10**5}
        fastavro.writer(out, fastavro.parse_schema(AVRO), [record] * 20, codec="deflate")
        return CoderCase(
            options={"schema": json.dumps(AVRO), "framing": "container", "max_size": "1 MiB"},
            rows=rows_of(made("avro", schema=AVRO).schema()),
            bad=[b"", b"Obj\x01", b"Obj\x01\x00" + bytes(16)],
            hostile=[out.getvalue()],
        )


class TestProtobuf(CoderSuite):
    coder = "protobuf"

    @pytest.fixture
    def case(self) -> CoderCase:
        from penstock.conformance.own.orders import Order

        def make(count: int, chance: random.Random) -> pa.RecordBatch:
            values = [
                Order(
                    id=n,
                    name=chance.choice("xyz"),
                    score=chance.random(),
                    number=chance.randrange(-1000, 1000),
                    raw=chance.randbytes(3),
                    line=Order.Line(sku="s", qty=n),
                    numbers=[n] * chance.randrange(3),
                    tags=["a"] * chance.randrange(4),
                ).SerializeToString()
                for n in range(count)
            ]
            rows: pa.RecordBatch = (
                made("protobuf", schema=Order).decode(pa.array(values, pa.binary())).rows
            )
            return rows

        return CoderCase(
            options={"schema": f"{__package__}.orders:Order"},
            rows=make,
            bad=[b"\x00", b"\x12\x05", b"\x08" + b"\xff" * 11, b"\x12\x01\xff"],
            hostile=[
                b"\x52\x00" * 20_000,
                b"\x62\x00" * 20_000,
                b"\x5a\xff\xff\xff\xff\x0f",
                b"\x0b" * DEEP,
                b"\x4a\x02" * DEEP,
            ],
            older={"schema": f"{__package__}.orders:Order"},
            newer={"schema": f"{__package__}.orders:LaterOrder"},
            nulls=0,
        )
