"""The coders in the core pass their suite."""

import json

import pyarrow as pa
import pytest

from penstock import registry
from penstock.conformance import CoderCase, CoderSuite, TransformCase, TransformSuite
from penstock.conformance.random_rows import random_rows
from penstock.contracts.options import parse

SCHEMA = "id long, name string, total double, at timestamp, tags array<string>, ok boolean"
FLAT = "id long, name string, total double, at timestamp, ok boolean"
DEEP = b"[" * 100_000
HUGE = b'{"id": ' + b"9" * 100_000 + b"}"


class TestBytes(CoderSuite):
    coder = "bytes"

    @pytest.fixture
    def case(self):
        return CoderCase(options={}, hostile=[b"\x00" * 2**20], nulls=0)


class TestText(CoderSuite):
    coder = "text"

    @pytest.fixture
    def case(self):
        return CoderCase(options={}, bad=[b"\xff\xfe\xfa"], hostile=[b"\xf0" * 2**20], nulls=0)


class TestJson(CoderSuite):
    coder = "json"

    @pytest.fixture
    def case(self):
        return CoderCase(
            options={"schema": SCHEMA},
            bad=[b"{", b"no json", b'{"id": "many"}', b"\xff", b'{"id": 1} {"id": 2}'],
            hostile=[DEEP, HUGE, b'{"name": "' + b"\\u0041" * 50_000],
            older={"schema": "id long, name string"},
            newer={"schema": "name string, id long, total double"},
        )


class TestCsv(CoderSuite):
    coder = "csv"

    @pytest.fixture
    def case(self):
        return CoderCase(
            options={"schema": FLAT, "null": "\\N"},
            bad=[b"many,x,1.0,2025-01-01T00:00:00Z,true", b"1", b'1,"open,1.0,,'],
            hostile=[b"," * 100_000, b'"' * 100_001, b"9" * 100_000],
        )


def avro(*fields):
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


ID = {"name": "id", "type": ["null", "long"], "default": None}
NAME = {"name": "name", "type": ["null", "string"], "default": None}
TAGS = {
    "name": "tags",
    "type": ["null", {"type": "array", "items": ["null", "string"]}],
    "default": None,
}
OLDER, NEWER = avro(ID, NAME), avro(NAME, ID, TAGS)


class TestAvro(CoderSuite):
    coder = "avro"

    @pytest.fixture
    def case(self):
        pytest.importorskip("fastavro")
        both = {"framing": "single-object", "writer": [OLDER, NEWER]}
        return CoderCase(
            options={"schema": SCHEMA},
            bad=[b"\x02", b"\x02\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x7f" * 3],
            hostile=[b"\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff" * 2**16],
            older={"schema": OLDER, **both},
            newer={"schema": NEWER, **both},
            rows=lambda count, chance: random_rows(
                parse(registry.coder("avro"), {"schema": SCHEMA}).schema(), count, chance
            ),
        )


BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + b"".join(
    b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(8)
)


class TestXml(CoderSuite):
    coder = "xml"

    @pytest.fixture
    def case(self):
        pytest.importorskip("lxml")
        letters = "abc <&> äß日本"

        def rows(count, chance):
            schema = parse(registry.coder("xml"), {"schema": "id long, name string"}).schema()
            made = [
                {
                    "id": chance.randint(-9, 9),
                    "name": "x" + "".join(chance.choices(letters, k=5)) + "x",
                }
                for _ in range(count)
            ]
            return pa.RecordBatch.from_pylist(made, schema=schema)

        return CoderCase(
            options={"schema": "id long, name string"},
            rows=rows,
            bad=[b"<row>", b"no xml", b"\xff", b"<row><id>many</id></row>"],
            hostile=[BOMB + b"]><row>&i;</row>", b"<a>" * 100_000, b"<row " + b"x" * 2**20],
        )


class TestXmlFilter(TransformSuite):
    transform = "xml-filter"

    @pytest.fixture
    def case(self):
        pytest.importorskip("lxml")
        texts = [b"<o><t>1</t></o>", b"<o><t>200</t></o>", b"<o/>", b"<o><t>150</t></o>"]
        trees, errors = parse(registry.coder("xml-node"), {}).parse(pa.array(texts, pa.binary()))
        assert not errors
        wanted = [None, trees[1], None, trees[3]]
        return TransformCase(options={"where": "//o[t>100]"}, data=trees, wanted=wanted)
