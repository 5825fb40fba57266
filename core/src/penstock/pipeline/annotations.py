"""What a function's annotations say about the records it takes and gives."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import attrs
import pyarrow as pa
from attrs import frozen

from penstock.contracts.envelope import TIMESTAMP
from penstock.contracts.errors import SchemaError

_SIMPLE: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    datetime.datetime: TIMESTAMP,
    datetime.date: pa.date32(),
    decimal.Decimal: pa.decimal128(38, 18),
}


@frozen
class Signature:
    """What a record function takes and gives.

    Attributes:
        takes: The annotated class of its record, or None for a dict.
        gives: The annotated class of what it returns (the item of a list or an iterator for
            functions that return several), or None.
    """

    takes: type | None = None
    gives: type | None = None


def signature(function: Callable[..., Any], *, several: bool = False) -> Signature:
    """Read a record function's annotations; what is not a record class counts as a dict.

    Raises:
        SchemaError: it cannot be called with one record.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return Signature()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if (not positional and not variadic) or len([p for p in needed if p in positional]) > 1:
        raise SchemaError(
            f"the function {getattr(function, '__name__', function)} cannot be called with a record",
            expected="one argument, the record",
            got=f"{len(positional)} arguments",
        )
    try:
        hints = typing.get_type_hints(_plain(function))
    except (NameError, TypeError, AttributeError):
        hints = {}
    takes = hints.get(positional[0].name) if positional else None
    gives = hints.get("return")
    if several and typing.get_origin(gives) is not None:
        inner = typing.get_args(gives)
        gives = inner[0] if inner else None
    return Signature(_record_class(takes), _record_class(gives))


def _plain(function: Any) -> Any:
    if inspect.isfunction(function) or inspect.ismethod(function):
        return function
    return type(function).__call__


def _record_class(hint: Any) -> type | None:
    hint = _without_none(hint)
    return hint if is_record_class(hint) else None


def is_record_class(hint: Any) -> bool:
    """Whether records can be made as instances of this class."""
    return isinstance(hint, type) and (
        attrs.has(hint) or dataclasses.is_dataclass(hint) or typing.is_typeddict(hint)
    )


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [m for m in typing.get_args(hint) if m is not type(None)]
        return members[0] if len(members) == 1 else hint
    return hint


@frozen
class Field:
    """One field of a record class."""

    name: str
    type: Any
    required: bool


def fields_of(cls: type) -> list[Field]:
    """The fields of an attrs class, a dataclass or a TypedDict, in order."""
    hints = typing.get_type_hints(cls)
    if attrs.has(cls):
        return [
            Field(a.name, hints.get(a.name, a.type), a.default is attrs.NOTHING)
            for a in attrs.fields(cls)
            if a.init
        ]
    if dataclasses.is_dataclass(cls):
        return [
            Field(
                f.name,
                hints[f.name],
                f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
            )
            for f in dataclasses.fields(cls)
            if f.init
        ]
    needed = getattr(cls, "__required_keys__", frozenset(hints))
    return [Field(name, hint, name in needed) for name, hint in hints.items()]


def schema_of(cls: type) -> pa.Schema:
    """The columns of a record class.

    Raises:
        SchemaError: a field has a type without a column type.
    """
    return pa.schema([pa.field(f.name, arrow_type(f.type, cls, f.name)) for f in fields_of(cls)])


def arrow_type(hint: Any, cls: type, name: str) -> pa.DataType:
    """The column type of one annotated field."""
    hint = _without_none(hint)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin = typing.get_origin(hint)
    inner = typing.get_args(hint)
    if origin is typing.Literal:
        return arrow_type(type(inner[0]), cls, name)
    if origin in (list, tuple) and inner:
        return pa.list_(pa.field("element", arrow_type(inner[0], cls, name)))
    if origin is dict and len(inner) == 2:
        return pa.map_(arrow_type(inner[0], cls, name), arrow_type(inner[1], cls, name))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return pa.string()
    if is_record_class(hint):
        return pa.struct(list(schema_of(hint)))
    raise SchemaError(
        f"the field {name} of {cls.__qualname__} has a type that no column has",
        expected="str, int, float, bool, bytes, datetime, date, Decimal, list[...], "
        "dict[..., ...] or a record class",
        got=str(hint),
        fix="change the annotation, or give the step schema=...",
    )
