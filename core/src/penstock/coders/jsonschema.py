"""JSON Schema as a schema: the part of it that says what columns there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from attrs import frozen

from penstock.contracts.envelope import TIMESTAMP
from penstock.contracts.errors import SchemaError

MAX_DEPTH = 64

_FORMATS = {
    "date-time": TIMESTAMP,
    "date": pa.date32(),
    "time": pa.time64("us"),
    "binary": pa.binary(),
    "byte": pa.binary(),
}
_SIMPLE = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}


def json_schema(
    given: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]] | None = None
) -> pa.Schema:
    """The Arrow schema of a JSON Schema whose root is an object with properties.

    Constraints (`minimum`, `pattern`, `required`) say nothing about columns and are not checked.

    Args:
        given: The JSON Schema.
        others: The documents it may refer to, by the name that stands before `#` in a reference.

    Raises:
        SchemaError: a keyword that has no columnar meaning, an unknown reference, recursion.
    """
    root = _type(given, _Document("", given, others or {}), "$", ())
    if not pa.types.is_struct(root):
        raise _error("$", "an object with properties", str(root))
    return pa.schema(list(root))


def rendered(schema: pa.Schema) -> dict[str, Any]:
    """A JSON Schema for rows of these columns; every field may be null."""
    properties = {field.name: _rendered(field.type) for field in schema}
    return {"type": "object", "properties": properties}


def _rendered(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_struct(kind):
        return {**rendered(pa.schema(list(kind))), "type": ["object", "null"]}
    if pa.types.is_map(kind):
        return {"type": ["object", "null"], "additionalProperties": _rendered(kind.item_type)}
    if pa.types.is_list(kind):
        return {"type": ["array", "null"], "items": _rendered(kind.value_type)}
    if pa.types.is_binary(kind):
        return {"type": ["string", "null"], "contentEncoding": "base64"}
    if pa.types.is_boolean(kind):
        return {"type": ["boolean", "null"]}
    if pa.types.is_integer(kind):
        return {"type": ["integer", "null"]}
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return {"type": ["number", "null"]}
    formats = {"timestamp": "date-time", "date32": "date", "time64": "time"}
    named = formats.get(str(kind).partition("[")[0])
    return {"type": ["string", "null"], **({"format": named} if named else {})}


@frozen
class _Document:
    """Where `#` in a reference points to, and the documents that others name."""

    name: str
    root: Mapping[str, Any]
    others: Mapping[str, Mapping[str, Any]]

    def resolve(self, ref: str, where: str) -> tuple[Any, _Document]:
        name, _, path = ref.partition("#")
        document = self
        if name:
            if name not in self.others:
                raise _error(where, "a reference within the schema (#/$defs/...)", ref)
            document = _Document(name, self.others[name], self.others)
        found: Any = document.root
        for step in path.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or step not in found:
                raise _error(where, "a reference to something that is there", ref)
            found = found[step]
        return found, document


def _type(
    spec: Any, root: _Document, where: str, seen: tuple[str, ...], depth: int = 0
) -> pa.DataType:
    if not isinstance(spec, Mapping):
        raise _error(where, "a JSON Schema object", type(spec).__name__)
    if depth > MAX_DEPTH:
        raise _error(where, f"nesting of at most {MAX_DEPTH}", "more")
    if "$ref" in spec:
        ref = str(spec["$ref"])
        target, document = root.resolve(ref, where)
        place = f"{document.name}#{ref.partition('#')[2]}"
        if place in seen:
            raise _error(where, "a type of bounded depth: Spark has no recursive types", ref)
        return _type(target, document, where, (*seen, place), depth + 1)
    for word in ("anyOf", "oneOf"):
        if word in spec:
            return _choice(spec[word], root, where, seen, depth)
    if "allOf" in spec:
        if len(spec["allOf"]) != 1:
            raise _error(where, "allOf of one schema", f"allOf of {len(spec['allOf'])}")
        return _type(spec["allOf"][0], root, where, seen, depth + 1)
    kind = spec.get("type")
    if kind is None:
        kind = "object" if "properties" in spec else "string" if "enum" in spec else None
    if isinstance(kind, list):
        return _choice([{**spec, "type": k} for k in kind], root, where, seen, depth)
    if kind == "object":
        return _object(spec, root, where, seen, depth)
    if kind == "array":
        items = spec.get("items")
        if not isinstance(items, Mapping):
            raise _error(where, "an array with one schema for its items", str(items))
        child = _type(items, root, f"{where}[]", seen, depth + 1)
        return pa.list_(pa.field("element", child))
    if kind == "string":
        if spec.get("contentEncoding") == "base64":
            return pa.binary()
        return _FORMATS.get(str(spec.get("format")), pa.string())
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    raise _error(where, "type: object, array, string, integer, number or boolean", str(kind))


def _object(
    spec: Mapping[str, Any], root: _Document, where: str, seen: tuple[str, ...], depth: int
) -> pa.DataType:
    properties = spec.get("properties")
    if properties:
        return pa.struct(
            [
                pa.field(str(name), _type(each, root, f"{where}.{name}", seen, depth + 1))
                for name, each in properties.items()
            ]
        )
    values = spec.get("additionalProperties")
    if isinstance(values, Mapping):
        return pa.map_(pa.string(), _type(values, root, f"{where}.*", seen, depth + 1))
    raise _error(where, "an object with properties, or with a schema for its values", "neither")


def _choice(
    members: Any, root: _Document, where: str, seen: tuple[str, ...], depth: int
) -> pa.DataType:
    real = [m for m in members if not (isinstance(m, Mapping) and m.get("type") == "null")]
    kinds = [_type(m, root, where, seen, depth + 1) for m in real]
    if len(set(map(str, kinds))) == 1:
        return kinds[0]
    if kinds and all(k in (pa.int64(), pa.float64()) for k in kinds):
        return pa.float64()
    raise _error(where, "one type, or one type and null", ", ".join(map(str, kinds)) or "null")


def _error(where: str, expected: str, got: str) -> SchemaError:
    return SchemaError(
        f"the JSON Schema has no columns for {where}",
        expected=expected,
        got=got,
        fix="change the JSON Schema, or give the columns as Spark DDL",
    )
