"""Avro schemas as values, and the Arrow types they become."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import field, frozen

from penstock.contracts.envelope import TIMESTAMP
from penstock.contracts.errors import SchemaError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MAX_DEPTH = 64
MAX_TYPES = 50_000
"""The types of a schema with each name written out: a few nested names can stand for billions."""

_ARROW = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time64("us"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "timestamp-nanos"): TIMESTAMP,
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("us"),
    ("string", "uuid"): pa.string(),
}


@frozen
class Primitive:
    """A type without a name: number, text, bytes, null."""

    kind: str
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@frozen
class Fixed:
    """Bytes of one length."""

    name: str
    size: int
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    aliases: frozenset[str] = frozenset()


@frozen
class Enum:
    """One of some symbols."""

    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    aliases: frozenset[str] = frozenset()


@frozen
class Field:
    """A field of a record."""

    name: str
    type: Node
    has_default: bool = False
    default: Any = field(default=None, eq=False)
    aliases: frozenset[str] = frozenset()


@frozen
class Record:
    """Fields in their order."""

    name: str
    fields: tuple[Field, ...]
    aliases: frozenset[str] = frozenset()


@frozen
class Array:
    """Any number of items."""

    items: Node


@frozen
class Map:
    """Text keys and values."""

    values: Node


@frozen
class Union:
    """One of several types."""

    branches: tuple[Node, ...]


Node = Primitive | Fixed | Enum | Record | Array | Map | Union
NULL = Primitive("null")


def avro_schema(given: Any) -> pa.Schema:
    """The Arrow schema of an Avro schema; one that is no record becomes the column `value`."""
    return columns(parse(given))


def columns(node: Node) -> pa.Schema:
    """The columns that records of a type have."""
    if isinstance(node, Record):
        return pa.schema([pa.field(f.name, arrow(f.type)) for f in node.fields])
    return pa.schema([pa.field("value", arrow(node))])


def parse(given: Any, known: Sequence[Any] = ()) -> Node:
    """An Avro schema (JSON text or its objects) as a value.

    Args:
        given: The schema.
        known: Schemas whose names it may use; each may use the names of those before it.

    Raises:
        SchemaError: it is no Avro schema, or one that holds itself.
    """
    reader = _Reader()
    try:
        for other in known:
            reader.read(loaded(other), "", ())
        objects = loaded(given)
        # Names that are no text (half of a surrogate pair) would fail where columns are made.
        json.dumps(objects, ensure_ascii=False).encode()
        return reader.read(objects, "", ())
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _wrong("cannot be read", "an Avro schema", str(error)) from None


def loaded(given: Any) -> Any:
    """A schema's objects, from JSON text if need be.

    Raises:
        SchemaError: the text is no JSON.
    """
    if isinstance(given, str) and given.strip()[:1] in ("{", "[", '"'):
        try:
            return json.loads(given)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"the Avro schema is not valid JSON: {error}") from None
    return given


class _Reader:
    def __init__(self) -> None:
        self.named: dict[str, Node] = {}
        self.sizes: dict[str, int] = {}
        self.types = 0

    def grow(self, types: int) -> None:
        self.types += types
        if self.types > MAX_TYPES:
            raise _wrong("is too large", f"at most {MAX_TYPES} types", "more")

    def read(self, given: Any, space: str, within: tuple[str, ...]) -> Node:
        self.grow(1)
        if len(within) > MAX_DEPTH:
            raise _wrong("is nested too deep", f"at most {MAX_DEPTH} levels", "more")
        if isinstance(given, str):
            return self.named_type(given, space, within)
        if isinstance(given, list):
            return self.union(given, space, (*within, ""))
        if not isinstance(given, Mapping) or "type" not in given:
            raise _wrong("cannot be read", "a name, a list or an object with a type", repr(given))
        kind = given["type"]
        if isinstance(kind, Mapping | list):
            return self.read(kind, space, (*within, ""))
        if kind in ("record", "error"):
            return self.record(given, space, within)
        if kind == "enum":
            return self.enum(given, space)
        if kind == "fixed":
            return self.fixed(given, space)
        if kind == "array":
            return Array(self.read(given.get("items"), space, (*within, "")))
        if kind == "map":
            return Map(self.read(given.get("values"), space, (*within, "")))
        if kind in PRIMITIVES:
            return self.primitive(given)
        return self.named_type(kind, space, within)

    def named_type(self, name: str, space: str, within: tuple[str, ...]) -> Node:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not space else f"{space}.{name}"
        if full in within or name in within:
            raise SchemaError(
                f"the Avro type {name} holds itself",
                expected="a type of bounded depth: Spark has no recursive types",
                fix="leave the field out, or carry it as JSON text",
            )
        for candidate in (full, name):
            if candidate in self.named:
                self.grow(self.sizes.get(candidate, 1))
                return self.named[candidate]
        raise _wrong(f"uses the type {name}, which it does not define", "a defined name", name)

    def full_name(self, given: Mapping[str, Any], space: str) -> tuple[str, str, frozenset[str]]:
        name = given.get("name")
        if not isinstance(name, str) or not name:
            raise _wrong("has a type without a name", "a name", repr(name))
        space = name.rpartition(".")[0] if "." in name else given.get("namespace", space) or ""
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self.named:
            raise _wrong(f"defines {full} twice", "each name once", full)
        aliases = (str(each).rpartition(".")[2] for each in given.get("aliases", ()))
        return full, space, frozenset(aliases)

    def record(self, given: Mapping[str, Any], space: str, within: tuple[str, ...]) -> Node:
        full, space, aliases = self.full_name(given, space)
        before = self.types
        found = []
        for each in given.get("fields", ()):
            named = isinstance(each, Mapping) and isinstance(each.get("name"), str)
            if not named or "type" not in each:
                raise _wrong(f"has a broken field in {full}", "a name and a type", repr(each))
            found.append(
                Field(
                    name=each["name"],
                    type=self.read(each["type"], space, (*within, full)),
                    has_default="default" in each,
                    default=each.get("default"),
                    aliases=frozenset(each.get("aliases", ())),
                )
            )
        if len({f.name for f in found}) < len(found):
            raise _wrong(f"has a field twice in {full}", "each name once", "two of one name")
        self.named[full] = Record(full, tuple(found), aliases)
        self.sizes[full] = self.types - before
        return self.named[full]

    def enum(self, given: Mapping[str, Any], space: str) -> Node:
        full, _, aliases = self.full_name(given, space)
        symbols = tuple(given.get("symbols", ()))
        if not symbols or not all(isinstance(s, str) for s in symbols):
            raise _wrong(f"has no symbols in the enum {full}", "a list of names", repr(symbols))
        self.named[full] = Enum(full, symbols, given.get("default"), aliases)
        return self.named[full]

    def fixed(self, given: Mapping[str, Any], space: str) -> Node:
        full, _, aliases = self.full_name(given, space)
        size = given.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
            raise _wrong(f"has no size in the fixed {full}", "a whole number", repr(size))
        logical, precision, scale = _logical(given, size)
        if logical == "uuid" and size != 16:
            logical = None
        self.named[full] = Fixed(full, size, logical, precision, scale, aliases)
        return self.named[full]

    def primitive(self, given: Mapping[str, Any]) -> Primitive:
        kind = given["type"]
        logical, precision, scale = _logical(given, None)
        known = (kind, logical) in _LOGICAL or (kind == "bytes" and logical == "decimal")
        return Primitive(kind, logical, precision, scale) if known else Primitive(kind)

    def union(self, given: list[Any], space: str, within: tuple[str, ...]) -> Node:
        branches = tuple(self.read(each, space, within) for each in given)
        if not branches or any(isinstance(each, Union) for each in branches):
            raise _wrong("has an empty or nested union", "types that are no unions", repr(given))
        if any(sum(isinstance(each, kind) for each in branches) > 1 for kind in (Array, Map)):
            raise _wrong("has a union of two arrays or two maps", "one of each", repr(given))
        return Union(branches)


def _logical(given: Mapping[str, Any], size: int | None) -> tuple[str | None, int, int]:
    """The logical type with its numbers; a broken decimal is no decimal, as Avro demands."""
    logical = given.get("logicalType")
    if logical != "decimal":
        return logical if size is None or logical == "uuid" else None, 0, 0
    precision, scale = given.get("precision"), given.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None, 0, 0
    if not precision > 0 or not 0 <= scale <= precision:
        return None, 0, 0
    if precision > 38:
        raise _wrong("has a decimal too wide", "a precision of at most 38", str(precision))
    return "decimal", precision, scale


def arrow(node: Node) -> pa.DataType:
    """The Arrow type of an Avro type."""
    if isinstance(node, Primitive):
        if node.logical == "decimal":
            return pa.decimal128(node.precision, node.scale)
        return _LOGICAL.get((node.kind, node.logical or ""), _ARROW[node.kind])
    if isinstance(node, Fixed):
        if node.logical == "decimal":
            return pa.decimal128(node.precision, node.scale)
        return pa.string() if node.logical == "uuid" else pa.binary()
    if isinstance(node, Enum):
        return pa.string()
    if isinstance(node, Record):
        return pa.struct([pa.field(f.name, arrow(f.type)) for f in node.fields])
    if isinstance(node, Array):
        return pa.list_(pa.field("element", arrow(node.items)))
    if isinstance(node, Map):
        return pa.map_(pa.string(), arrow(node.values))
    kinds = [arrow(branch) for branch in members(node)]
    if not kinds:
        return pa.null()
    if len(kinds) == 1:
        return kinds[0]
    return pa.struct([pa.field(f"member{i}", kind) for i, kind in enumerate(kinds)])


def members(node: Union) -> tuple[Node, ...]:
    """The branches of a union that are not null."""
    return tuple(branch for branch in node.branches if branch != NULL)


def short(name: str) -> str:
    """A full name without its namespace."""
    return name.rpartition(".")[2]


def _wrong(what: str, expected: str, got: str) -> SchemaError:
    return SchemaError(f"the Avro schema {what}", expected=expected, got=got[:200])


def spec(node: Node, seen: set[str] | None = None) -> Any:
    """A type as the JSON objects of an Avro schema; each named type is written out once."""
    seen = set() if seen is None else seen
    if isinstance(node, Union):
        return [spec(branch, seen) for branch in node.branches]
    if isinstance(node, Array):
        return {"type": "array", "items": spec(node.items, seen)}
    if isinstance(node, Map):
        return {"type": "map", "values": spec(node.values, seen)}
    if isinstance(node, Primitive):
        return node.kind if node.logical is None else {"type": node.kind, **_marks(node)}
    if node.name in seen:
        return node.name
    seen.add(node.name)
    out: dict[str, Any] = {"type": type(node).__name__.lower(), "name": node.name}
    if node.aliases:
        out["aliases"] = sorted(node.aliases)
    if isinstance(node, Fixed):
        return {**out, "size": node.size, **_marks(node)}
    if isinstance(node, Enum):
        default = {} if node.default is None else {"default": node.default}
        return {**out, "symbols": list(node.symbols), **default}
    return {**out, "fields": [_field_spec(each, seen) for each in node.fields]}


def _marks(node: Primitive | Fixed) -> dict[str, Any]:
    if node.logical == "decimal":
        return {"logicalType": "decimal", "precision": node.precision, "scale": node.scale}
    return {} if node.logical is None else {"logicalType": node.logical}


def _field_spec(each: Field, seen: set[str]) -> dict[str, Any]:
    out: dict[str, Any] = {"name": each.name, "type": spec(each.type, seen)}
    if each.has_default:
        out["default"] = each.default
    if each.aliases:
        out["aliases"] = sorted(each.aliases)
    return out
