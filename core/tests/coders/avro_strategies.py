"""Random Avro schemas with data, as fastavro takes them."""

from __future__ import annotations

import datetime
import decimal
import itertools
import uuid
from typing import Any

from hypothesis import strategies as st

from core.tests.coders.strategies import TEXTS

_PLAIN: list[Any] = [
    "null",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    "string",
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 6},
]

_UNIONS: list[Any] = [["null", "long", "string"], ["string", "boolean"], ["bytes", "null", "long"]]
AMBIGUOUS: list[Any] = [
    ["int", "long"],
    ["long", "null", "int"],
    ["null", "float", "double"],
    ["double", "long"],
    ["string", {"type": "enum", "name": "symbol", "symbols": ["A", "B"]}],
    [{"type": "fixed", "name": "three", "size": 3}, "bytes"],
]
"""Unions in which a value alone does not tell its branch."""


@st.composite
def schemas(draw: st.DrawFn, unions: list[Any] = _UNIONS) -> Any:
    """A record schema; every named type has a name of its own."""
    numbers = itertools.count()

    def named() -> st.SearchStrategy[Any]:
        return st.sampled_from(["enum", "fixed", "decimal"]).map(_named)

    def _named(kind: str) -> Any:
        name = f"t{next(numbers)}"
        if kind == "enum":
            return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}
        if kind == "decimal":
            marks = {"logicalType": "decimal", "precision": 20, "scale": 3}
            return {"type": "fixed", "name": name, "size": 9, **marks}
        return {"type": "fixed", "name": name, "size": 5}

    def renamed(branch: Any) -> Any:
        return branch if isinstance(branch, str) else {**branch, "name": f"t{next(numbers)}"}

    def record(fields: list[Any]) -> Any:
        named_fields = [{"name": f"f{i}", "type": each} for i, each in enumerate(fields)]
        return {"type": "record", "name": f"r{next(numbers)}", "fields": named_fields}

    def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        bare = inner.filter(lambda each: not isinstance(each, list) and each != "null")
        return st.one_of(
            inner.map(lambda each: {"type": "array", "items": each}),
            inner.map(lambda each: {"type": "map", "values": each}),
            st.lists(inner, min_size=1, max_size=3).map(record),
            bare.map(lambda each: ["null", each]),
            bare.map(lambda each: [each, "null"]),
            st.sampled_from(unions).map(lambda union: [renamed(each) for each in union]),
        )

    leaves = st.sampled_from(_PLAIN) | named()
    kinds = st.recursive(leaves, deeper, max_leaves=5)
    return record(draw(st.lists(kinds, min_size=1, max_size=4)))


def data(schema: Any) -> st.SearchStrategy[Any]:
    """Values of a schema; one of several branches with its branch's name, as fastavro takes it."""
    if isinstance(schema, list):
        named = len([each for each in schema if each != "null"]) > 1
        return st.one_of([_branch(each) if named else data(each) for each in schema])
    kind = schema if isinstance(schema, str) else schema["type"]
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    if logical == "decimal":
        most = 10 ** schema["precision"] - 1
        return st.integers(-most, most).map(lambda n: _scaled(n, schema["scale"]))
    if logical is not None:
        return _logical(logical)
    if kind == "record":
        return st.fixed_dictionaries({f["name"]: data(f["type"]) for f in schema["fields"]})
    if kind == "array":
        return st.lists(data(schema["items"]), max_size=4)
    if kind == "map":
        return st.dictionaries(TEXTS, data(schema["values"]), max_size=3)
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "bytes": st.binary(max_size=20),
        "string": TEXTS,
    }[kind]


def _branch(schema: Any) -> st.SearchStrategy[Any]:
    if schema == "null":
        return st.none()
    name = schema if isinstance(schema, str) else schema["name"]
    return data(schema).map(lambda value: (name, value))


def _scaled(number: int, scale: int) -> decimal.Decimal:
    with decimal.localcontext(decimal.Context(prec=60)):
        return decimal.Decimal(number).scaleb(-scale)


def _logical(logical: str) -> st.SearchStrategy[Any]:
    first, last = datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)
    if logical == "date":
        return st.dates(first.date(), last.date())
    if logical == "uuid":
        return st.uuids().map(lambda each: uuid.UUID(str(each)))
    coarse = logical.endswith("millis")
    if logical.startswith("time-"):
        return st.times().map(lambda t: _cut(t, coarse))
    zone = None if logical.startswith("local") else datetime.UTC
    return st.datetimes(first, last).map(lambda t: _cut(t, coarse).replace(tzinfo=zone))


def _cut(moment: Any, coarse: bool) -> Any:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000) if coarse else moment
