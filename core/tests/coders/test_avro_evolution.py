"""Avro's rules of resolution, as a table; fastavro is asked the same questions."""

import io

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tests.coders import avro_reference as reference
from core.tests.coders import avro_strategies
from penstock.coders.avro import types
from penstock.coders.avro.coder import AvroCoder
from penstock.contracts.errors import SchemaError


def record(*fields, name="r", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def enum(*symbols, **more):
    return {"type": "enum", "name": "e", "symbols": list(symbols), **more}


A = field("a", "int")
INNER = record(field("x", "int"), name="inner")
WIDER = record(field("x", "long"), field("y", "string", default="?"), name="inner")

READABLE = {
    "a field added with a default": (
        record(A),
        record(A, field("b", "string", default="new")),
        {"a": 1},
        {"a": 1, "b": "new"},
    ),
    "a nullable field added": (
        record(A),
        record(A, field("b", ["null", "int"], default=None)),
        {"a": 1},
        {"a": 1, "b": None},
    ),
    "a union added whose first branch is the default's": (
        record(A),
        record(A, field("b", ["int", "null"], default=7)),
        {"a": 1},
        {"a": 1, "b": 7},
    ),
    "a union added whose other branch is the default's": (
        record(A),
        record(
            A,
            field("b", ["null", "string"], default="x"),
            field("c", ["long", "null", "string"], default="y"),
        ),
        {"a": 1},
        {"a": 1, "b": "x", "c": {"member0": None, "member1": "y"}},
    ),
    "a record, a list and a map added": (
        record(A),
        record(
            A,
            field("r", INNER, default={"x": 5}),
            field("l", {"type": "array", "items": "int"}, default=[1, 2]),
            field("m", {"type": "map", "values": "int"}, default={"k": 1}),
        ),
        {"a": 1},
        {"a": 1, "r": {"x": 5}, "l": [1, 2], "m": [("k", 1)]},
    ),
    "a field removed": (
        record(field("gone", {"type": "map", "values": ["null", "string"]}), A),
        record(A),
        {"gone": {"k": "v"}, "a": 1},
        {"a": 1},
    ),
    "fields in another order": (
        record(A, field("b", "string")),
        record(field("b", "string"), A),
        {"a": 1, "b": "x"},
        {"b": "x", "a": 1},
    ),
    "a field renamed by an alias": (
        record(A),
        record(field("n", "int", aliases=["a"])),
        {"a": 1},
        {"n": 1},
    ),
    "int to long": (record(A), record(field("a", "long")), {"a": 1}, {"a": 1}),
    "int to double": (record(A), record(field("a", "double")), {"a": 3}, {"a": 3.0}),
    "long to float": (
        record(field("a", "long")),
        record(field("a", "float")),
        {"a": 4},
        {"a": 4.0},
    ),
    "float to double": (
        record(field("a", "float")),
        record(field("a", "double")),
        {"a": 0.5},
        {"a": 0.5},
    ),
    "string to bytes": (
        record(field("a", "string")),
        record(field("a", "bytes")),
        {"a": "x"},
        {"a": b"x"},
    ),
    "bytes to string": (
        record(field("a", "bytes")),
        record(field("a", "string")),
        {"a": b"x"},
        {"a": "x"},
    ),
    "a type made nullable": (record(A), record(field("a", ["null", "int"])), {"a": 1}, {"a": 1}),
    "a type made nullable and wider": (
        record(A),
        record(field("a", ["null", "long"])),
        {"a": 1},
        {"a": 1},
    ),
    "a nullable read as plain": (
        record(field("a", ["null", "int"])),
        record(A),
        {"a": 1},
        {"a": 1},
    ),
    "a union in another order": (
        record(field("a", ["null", "int"])),
        record(field("a", ["int", "null"])),
        {"a": None},
        {"a": None},
    ),
    "a union grown": (
        record(field("a", ["null", "string"])),
        record(field("a", ["null", "long", "string"])),
        {"a": "x"},
        {"a": {"member0": None, "member1": "x"}},
    ),
    "a plain type read as one of several": (
        record(field("a", "int")),
        record(field("a", ["string", "long"])),
        {"a": 9},
        {"a": {"member0": None, "member1": 9}},
    ),
    "enum symbols added and moved": (
        record(field("a", enum("X", "Y"))),
        record(field("a", enum("Z", "Y", "X"))),
        {"a": "Y"},
        {"a": "Y"},
    ),
    "an enum symbol lost, with a default": (
        record(field("a", enum("X", "Y"))),
        record(field("a", enum("X", default="X"))),
        {"a": "Y"},
        {"a": "X"},
    ),
    "deep inside arrays and maps": (
        record(field("a", {"type": "array", "items": {"type": "map", "values": INNER}})),
        record(field("a", {"type": "array", "items": {"type": "map", "values": WIDER}})),
        {"a": [{"k": {"x": 1}}, {}]},
        {"a": [[("k", {"x": 1, "y": "?"})], []]},
    ),
    "a record renamed by an alias": (
        record(A, name="old"),
        record(A, name="new", aliases=["old"]),
        {"a": 1},
        {"a": 1},
    ),
    "another namespace": (
        record(A, namespace="one"),
        record(A, namespace="two"),
        {"a": 1},
        {"a": 1},
    ),
}


def written(schema, each):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), each)
    return out.getvalue()


@pytest.mark.parametrize("case", READABLE)
def test_the_reader_sees_its_own_schema(case):
    writer, reader, given_, expected = READABLE[case]
    value = written(writer, given_)
    done = AvroCoder(schema=reader, writer=writer).decode(pa.array([value, value], pa.binary()))
    assert done.errors == ()
    assert done.rows.to_pylist() == [expected, expected]


@pytest.mark.parametrize("case", READABLE)
def test_fastavro_agrees(case):
    writer, reader, given_, expected = READABLE[case]
    parsed = fastavro.parse_schema(reader)
    value = written(writer, given_)
    rows = reference.decode([value], fastavro.parse_schema(writer), parsed, types.parse(reader))
    assert rows.to_pylist() == [expected]


UNREADABLE = {
    "a field without a default": (record(A), record(A, field("b", "string"))),
    "long to int": (record(field("a", "long")), record(A)),
    "double to float": (record(field("a", "double")), record(field("a", "float"))),
    "string to int": (record(field("a", "string")), record(A)),
    "another record's name": (record(A), record(A, name="other")),
    "a fixed of another size": (
        record(field("a", {"type": "fixed", "name": "f", "size": 2})),
        record(field("a", {"type": "fixed", "name": "f", "size": 3})),
    ),
    "an array as a map": (
        record(field("a", {"type": "array", "items": "int"})),
        record(field("a", {"type": "map", "values": "int"})),
    ),
    "a union without a common type": (
        record(field("a", ["null", "string"])),
        record(field("a", ["int", "boolean"])),
    ),
    "a decimal of another scale": (
        record(field("a", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2})),
        record(field("a", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1})),
    ),
    "a default that no branch holds": (
        record(A),
        record(A, field("b", ["null", "int"], default="x")),
    ),
    "a default that is no symbol": (record(A), record(A, field("b", enum("X"), default="Y"))),
    "a default that is none": (record(A), record(A, field("b", "int", default="x"))),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_is_refused_before_any_byte(case):
    writer, reader = UNREADABLE[case]
    with pytest.raises(SchemaError):
        AvroCoder(schema=reader, writer=writer).decode(pa.array([], pa.binary()))


@pytest.mark.parametrize(
    ("writer", "reader", "bad"),
    [
        (record(field("a", ["null", "int"])), record(A), {"a": None}),
        (record(field("a", enum("X", "Y"))), record(field("a", enum("X"))), {"a": "Y"}),
        (record(field("a", ["int", "string"])), record(A), {"a": "x"}),
    ],
    ids=["a null", "a symbol", "a branch"],
)
def test_a_value_the_reader_lacks_is_an_error_of_its_record(writer, reader, bad):
    good = {"a": "X"} if reader["fields"][0]["type"] != "int" else {"a": 1}
    values = [written(writer, good), written(writer, bad), written(writer, good)]
    done = AvroCoder(schema=reader, writer=writer).decode(pa.array(values, pa.binary()))
    assert done.rows.to_pylist() == [good, good]
    assert [error.row for error in done.errors] == [1]


@given(st.data())
@settings(max_examples=50)
def test_any_fields_can_be_left_out(data):
    schema = data.draw(avro_strategies.schemas())
    objects = data.draw(st.lists(avro_strategies.data(schema), max_size=4))
    values = pa.array([written(schema, each) for each in objects], pa.binary())
    whole = AvroCoder(schema=schema)
    names = [f["name"] for f in schema["fields"]]
    kept = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    done = whole.narrowed(kept).decode(values)
    assert done.errors == ()
    assert (
        done.rows.to_pylist()
        == whole.decode(values).rows.select([n for n in names if n in kept]).to_pylist()
    )
