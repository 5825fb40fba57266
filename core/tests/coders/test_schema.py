import dataclasses
import datetime
import decimal
import enum
import uuid
from typing import Annotated, Literal, Optional

import attrs
import pyarrow as pa
import pytest

from penstock.coders.ddl import parse_ddl, parse_type
from penstock.coders.schema import parse_schema
from penstock.contracts.errors import SchemaError

UTC = pa.timestamp("us", "UTC")


def element(kind):
    return pa.list_(pa.field("element", kind))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("boolean", pa.bool_()),
        ("TINYINT", pa.int8()),
        ("smallint", pa.int16()),
        ("INT", pa.int32()),
        ("integer", pa.int32()),
        ("BIGINT", pa.int64()),
        ("long", pa.int64()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(10, 0)),
        ("decimal(12)", pa.decimal128(12, 0)),
        ("DECIMAL(38, 18)", pa.decimal128(38, 18)),
        ("varchar(10)", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", UTC),
        ("timestamp_ntz", pa.timestamp("us")),
        ("array<int>", element(pa.int32())),
        ("map<string, array<bigint>>", pa.map_(pa.string(), element(pa.int64()))),
        ("struct<a: int, b: string>", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("array<struct<a int not null>>", element(pa.struct([("a", pa.int32())]))),
    ],
)
def test_each_ddl_type_has_its_arrow_type(text, expected):
    assert parse_type(text) == expected


def test_ddl_columns_may_be_quoted_commented_and_not_null():
    schema = parse_ddl(
        "`a b` INT NOT NULL COMMENT 'it\\'s, or so', `x``y`: STRING, c date comment 'd'"
    )
    assert schema.names == ["a b", "x`y", "c"]
    assert parse_ddl("struct<a: int>") == pa.schema([("a", pa.int32())])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a int,",
        "a int b int",
        "a array<int",
        "a decimal(39,2)",
        "a decimal(3,5)",
        "a decimal(x)",
        "a variant",
        "a int, A int",
        "a int; drop",
        "a " + "array<" * 100 + "int" + ">" * 100,
    ],
)
def test_what_is_no_ddl_is_refused_with_its_place(text):
    with pytest.raises(SchemaError, match="character"):
        parse_ddl(text)


def test_a_mistyped_ddl_type_gets_a_suggestion():
    with pytest.raises(SchemaError, match="bigint"):
        parse_ddl("id BIGNT")


class Colour(enum.Enum):
    RED = "red"


@attrs.frozen
class Place:
    street: str
    zip: int | None


@dataclasses.dataclass
class Order:
    id: int
    total: Annotated[decimal.Decimal, pa.decimal128(10, 2)]
    at: datetime.datetime
    day: datetime.date
    place: Optional[Place]  # noqa: UP045
    tags: list[str]
    scores: dict[str, float]
    colour: Colour
    size: Literal["s", "m"]
    ident: uuid.UUID
    raw: bytes


def test_classes_are_schemas():
    assert parse_schema(Order) == pa.schema(
        [
            ("id", pa.int64()),
            ("total", pa.decimal128(10, 2)),
            ("at", UTC),
            ("day", pa.date32()),
            ("place", pa.struct([("street", pa.string()), ("zip", pa.int64())])),
            ("tags", element(pa.string())),
            ("scores", pa.map_(pa.string(), pa.float64())),
            ("colour", pa.string()),
            ("size", pa.string()),
            ("ident", pa.string()),
            ("raw", pa.binary()),
        ]
    )


@attrs.frozen
class Tree:
    child: "Tree | None"


@attrs.frozen
class Odd:
    what: object


@pytest.mark.parametrize("cls", [Tree, Odd])
def test_a_class_without_columns_is_refused_with_the_field(cls):
    with pytest.raises(SchemaError, match=f"{cls.__name__}"):
        parse_schema(cls)


def test_json_schema_is_a_schema():
    given = {
        "type": "object",
        "$defs": {"place": {"type": "object", "properties": {"zip": {"type": "integer"}}}},
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": ["number", "null"]},
            "at": {"type": "string", "format": "date-time"},
            "day": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            "raw": {"type": "string", "contentEncoding": "base64"},
            "kind": {"enum": ["a", "b"]},
            "place": {"$ref": "#/$defs/place"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "scores": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    }
    assert parse_schema(given) == pa.schema(
        [
            ("id", pa.int64()),
            ("price", pa.float64()),
            ("at", UTC),
            ("day", pa.date32()),
            ("raw", pa.binary()),
            ("kind", pa.string()),
            ("place", pa.struct([("zip", pa.int64())])),
            ("tags", element(pa.string())),
            ("scores", pa.map_(pa.string(), pa.float64())),
        ]
    )


@pytest.mark.parametrize(
    "given",
    [
        {"type": "string"},
        {"type": "object"},
        {"properties": {"a": {"type": ["string", "integer"]}}},
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"$ref": "https://example.org/other"}}},
        {"properties": {"a": {"$ref": "#/nothing"}}},
        {"properties": {"a": {"type": "array"}}},
    ],
)
def test_a_json_schema_without_columns_is_refused(given):
    with pytest.raises(SchemaError):
        parse_schema(given)


def test_spark_names_a_lists_child_element():
    assert parse_schema(pa.schema([("a", pa.list_(pa.int64()))])).field("a").type == element(
        pa.int64()
    )


@pytest.mark.parametrize("given", [1, None, "{not json", "{}", object()])
def test_what_is_no_schema_is_refused(given):
    with pytest.raises(SchemaError):
        parse_schema(given)
