"""Protobuf messages as plans to read them, and the Arrow types they become."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
from attrs import frozen

from penstock.contracts.envelope import TIMESTAMP
from penstock.contracts.errors import SchemaError

Wire = Literal["varint", "zigzag", "fixed32", "fixed64", "bytes", "message"]

# By google.protobuf.FieldDescriptor.TYPE_*: how it is written, and what it becomes.
_SCALARS: dict[int, tuple[Wire, pa.DataType]] = {
    1: ("fixed64", pa.float64()),
    2: ("fixed32", pa.float32()),
    3: ("varint", pa.int64()),
    4: ("varint", pa.decimal128(20, 0)),
    5: ("varint", pa.int32()),
    6: ("fixed64", pa.decimal128(20, 0)),
    7: ("fixed32", pa.int64()),
    8: ("varint", pa.bool_()),
    9: ("bytes", pa.string()),
    12: ("bytes", pa.binary()),
    13: ("varint", pa.int64()),
    15: ("fixed32", pa.int32()),
    16: ("fixed64", pa.int64()),
    17: ("zigzag", pa.int32()),
    18: ("zigzag", pa.int64()),
}
_GROUP, _MESSAGE, _ENUM = 10, 11, 14
_STAMP = "google.protobuf.Timestamp"

WIRE = {"varint": 0, "zigzag": 0, "fixed64": 1, "bytes": 2, "message": 2, "fixed32": 5}


@frozen
class Field:
    """One field.

    Attributes:
        name, number: As declared.
        wire: How one value is written.
        kind: Its type number in Protobuf.
        type: The Arrow type of one value.
        shape: One value, any number, or a map.
        presence: Whether absence is told apart from a default; then absent is null.
        packed: Whether many numbers are written as one.
        message: The plan of a message or map entry.
        symbols: An enum's names by number.
        stamp: It is a `google.protobuf.Timestamp`.
    """

    name: str
    number: int
    wire: Wire
    kind: int
    type: pa.DataType
    shape: Literal["one", "many", "map"] = "one"
    presence: bool = False
    packed: bool = False
    message: Message | None = None
    symbols: tuple[tuple[int, str], ...] = ()
    stamp: bool = False

    @property
    def column(self) -> pa.DataType:
        """The Arrow type of its column."""
        if self.shape == "map" and self.message is not None:
            key, value = self.message.fields
            return pa.map_(key.type, value.type)
        if self.shape == "many":
            return pa.list_(pa.field("element", self.type))
        return self.type


@frozen
class Message:
    """A message's fields, in the order of their declaration.

    Attributes:
        oneofs: The numbers of fields of which a message has one at most.
    """

    name: str
    fields: tuple[Field, ...]
    oneofs: tuple[tuple[int, ...], ...] = ()

    @property
    def type(self) -> pa.DataType:
        """The struct it becomes."""
        return pa.struct([pa.field(f.name, f.column) for f in self.fields])


def message_schema(descriptor: Any) -> pa.Schema:
    """The Arrow schema of a message's descriptor.

    Raises:
        SchemaError: it holds itself, or a group.
    """
    return pa.schema(list(plan(descriptor).type))


def plan(descriptor: Any, within: tuple[str, ...] = ()) -> Message:
    """How to read and write a message."""
    name = descriptor.full_name
    if name in within:
        raise SchemaError(
            f"the Protobuf message {name} holds itself",
            expected="a type of bounded depth: Spark has no recursive types",
            fix="leave the field out of the schema, or carry it as bytes",
        )
    within = (*within, name)
    groups = [[each.number for each in oneof.fields] for oneof in descriptor.oneofs]
    rivals = tuple(tuple(group) for group in groups if len(group) > 1)
    return Message(name, tuple(_field(each, within) for each in descriptor.fields), rivals)


def _field(field: Any, within: tuple[str, ...]) -> Field:
    repeated = _repeated(field)
    many: Literal["one", "many"] = "many" if repeated else "one"
    common = {
        "name": field.name,
        "number": field.number,
        "kind": field.type,
        "shape": many,
        "presence": field.has_presence and not repeated,
        "packed": repeated and bool(field.is_packed),
    }
    if field.type == _GROUP:
        raise SchemaError(
            f"the Protobuf field {field.full_name} is a group",
            expected="messages; groups are long deprecated",
        )
    if field.type == _ENUM:
        symbols = tuple((v.number, v.name) for v in field.enum_type.values)
        return Field(wire="varint", type=pa.string(), symbols=_first(symbols), **common)
    if field.type != _MESSAGE:
        wire, kind = _SCALARS[field.type]
        return Field(wire=wire, type=kind, **common)
    inner = plan(field.message_type, within)
    if field.message_type.GetOptions().map_entry:
        entries = [f for f in inner.fields if f.number in (1, 2)]
        entry = Message(inner.name, tuple(sorted(entries, key=lambda f: f.number)))
        return Field(wire="message", type=entry.type, message=entry, **{**common, "shape": "map"})
    stamp = inner.name == _STAMP
    kind = TIMESTAMP if stamp else inner.type
    return Field(wire="message", type=kind, message=inner, stamp=stamp, **common)


def _repeated(field: Any) -> bool:
    found = getattr(field, "is_repeated", None)
    return bool(field.label == 3 if found is None else found)


def _first(symbols: tuple[tuple[int, str], ...]) -> tuple[tuple[int, str], ...]:
    """Of names that share a number (aliases) the first."""
    return tuple(reversed(dict(reversed(symbols)).items()))
