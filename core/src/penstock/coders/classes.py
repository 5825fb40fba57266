"""attrs classes and data classes as schemas."""

from __future__ import annotations

import datetime
import decimal
import enum
import types
import typing
import uuid
from typing import Any

import pyarrow as pa

from penstock.contracts.envelope import TIMESTAMP
from penstock.contracts.errors import SchemaError

_SIMPLE: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    decimal.Decimal: pa.decimal128(38, 18),
    datetime.datetime: TIMESTAMP,
    datetime.date: pa.date32(),
    datetime.time: pa.time64("us"),
    uuid.UUID: pa.string(),
}


def class_schema(cls: type) -> pa.Schema:
    """The Arrow schema of a class's annotated fields.

    `Annotated[Decimal, pa.decimal128(10, 2)]` says the Arrow type where the Python type alone
    does not.

    Raises:
        SchemaError: a field has no mapping, or the class holds itself.
    """
    return pa.schema(_fields(cls, (cls,)))


def _fields(cls: type, within: tuple[type, ...]) -> list[pa.Field]:
    hints = typing.get_type_hints(cls, include_extras=True)
    names = [f.name for f in getattr(cls, "__attrs_attrs__", ())]
    names = names or list(getattr(cls, "__dataclass_fields__", ()))
    return [pa.field(n, _type(hints[n], f"{cls.__name__}.{n}", within)) for n in names]


def _type(kind: Any, where: str, within: tuple[type, ...]) -> pa.DataType:
    origin = typing.get_origin(kind)
    args = typing.get_args(kind)
    if origin is typing.Annotated:
        given = [extra for extra in args[1:] if isinstance(extra, pa.DataType)]
        return given[0] if given else _type(args[0], where, within)
    if origin in (typing.Union, types.UnionType):
        members = [arg for arg in args if arg is not type(None)]
        if len(members) == 1:
            return _type(members[0], where, within)
    elif origin in (list, tuple, set, frozenset) and args:
        return pa.list_(pa.field("element", _type(args[0], where, within)))
    elif origin is dict:
        return pa.map_(_type(args[0], where, within), _type(args[1], where, within))
    elif origin is typing.Literal and all(isinstance(arg, str) for arg in args):
        return pa.string()
    elif kind in _SIMPLE:
        return _SIMPLE[kind]
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        return pa.string()
    elif hasattr(kind, "__attrs_attrs__") or hasattr(kind, "__dataclass_fields__"):
        if kind in within:
            raise SchemaError(
                f"the class {kind.__name__} holds itself, at {where}",
                expected="a type of bounded depth: Spark has no recursive types",
                fix="leave the field out, or carry it as JSON text in a str field",
            )
        return pa.struct(_fields(kind, (*within, kind)))
    raise SchemaError(
        f"the field {where} has a type without a mapping",
        expected="a type of the mapping table, or Annotated[..., an Arrow type]",
        got=str(kind),
    )
