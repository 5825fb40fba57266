"""Turning what users write (YAML values, Spark's strings, Python objects) into option types."""

from __future__ import annotations

import enum
import json
import re
import types
import typing
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.contracts.errors import OptionError
from penstock.contracts.secret import Secret

_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_BYTES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30}
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0}
_SECONDS |= {"min": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0, "hour": 3600.0}
_SECONDS |= {"hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0}
_QUANTITY = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*$")


def convert(raw: Any, kind: Any, *, name: str, unit: str | None = None) -> Any:
    """The value of an option's type that `raw` stands for.

    Raises:
        OptionError: it stands for none; a secret's value is never repeated.
    """
    members = _members(kind)
    if raw is None:
        if type(None) in members:
            return None
        raise _wrong(raw, kind, name, unit)
    for member in members:
        if member is type(None):
            continue
        try:
            return _convert_one(raw, member, unit)
        except (ValueError, TypeError, KeyError):
            continue
    raise _wrong(raw, kind, name, unit)


def _members(kind: Any) -> tuple[Any, ...]:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return typing.get_args(kind)
    return (kind,)


def _convert_one(raw: Any, kind: Any, unit: str | None) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        return raw
    if kind is Secret:
        return raw if isinstance(raw, Secret) else Secret(_text(raw))
    if origin is typing.Literal:
        return _choice(raw, typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return raw if isinstance(raw, kind) else kind(raw)
    if origin in (list, tuple):
        item = (typing.get_args(kind) or (str,))[0]
        values = [_convert_one(each, item, unit) for each in _items(raw)]
        return tuple(values) if origin is tuple else values
    if origin is dict or kind is dict:
        return _mapping(raw)
    if kind is bool:
        return _boolean(raw)
    if unit is not None and kind in (int, float):
        return _quantity(raw, kind, unit)
    if kind is int:
        if isinstance(raw, bool) or (isinstance(raw, float) and not raw.is_integer()):
            raise ValueError
        return int(raw.replace("_", "") if isinstance(raw, str) else raw)
    if kind is float:
        if isinstance(raw, bool):
            raise ValueError
        return float(raw)
    if kind is str:
        return _text(raw)
    if isinstance(raw, kind):
        return raw
    raise TypeError


def _text(raw: Any) -> str:
    if isinstance(raw, str):
        return raw
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return str(raw)
    if hasattr(raw, "__fspath__"):
        return str(raw.__fspath__())
    raise TypeError


def _choice(raw: Any, choices: tuple[Any, ...]) -> Any:
    if raw in choices:
        return raw
    if isinstance(raw, str):
        for choice in choices:
            if str(choice).lower() == raw.lower():
                return choice
    raise ValueError


def _items(raw: Any) -> list[Any]:
    if isinstance(raw, list | tuple):
        return list(raw)
    if isinstance(raw, str):
        text = raw.strip()
        if text.startswith("["):
            loaded = json.loads(text)
            if isinstance(loaded, list):
                return loaded
        return [part.strip() for part in text.split(",") if part.strip()]
    raise TypeError


def _mapping(raw: Any) -> dict[str, Any]:
    if isinstance(raw, str):
        raw = json.loads(raw)
    if not isinstance(raw, Mapping):
        raise TypeError
    return {str(key): value for key, value in raw.items()}


def _boolean(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str):
        return {"true": True, "false": False, "yes": True, "no": False}[raw.strip().lower()]
    raise TypeError


def _quantity(raw: Any, kind: type, unit: str) -> Any:
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return kind(raw)
    match = _QUANTITY.match(raw)
    if match is None:
        raise ValueError
    number, suffix = match.groups()
    factor = (_BYTES if unit == "bytes" else _SECONDS)[suffix.lower()]
    return kind(float(number) * factor)


def to_text(value: Any) -> str:
    """A value as Spark's string options carry it; `convert` reads it back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Secret):
        return value.reference or value.reveal()
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, list | tuple | dict):
        return json.dumps(value)
    if isinstance(value, pa.Schema):
        return str(value.to_string())
    return "" if value is None else str(value)


def describe(kind: Any, unit: str | None = None) -> str:
    """A type in the user's words."""
    words = [_describe_one(m, unit) for m in _members(kind) if m is not type(None)]
    return " or ".join(dict.fromkeys(words))


def _describe_one(kind: Any, unit: str | None) -> str:
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return "one of " + ", ".join(str(a) for a in typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "one of " + ", ".join(str(member.value) for member in kind)
    if origin in (list, tuple):
        item = (typing.get_args(kind) or (str,))[0]
        return f"list of {_describe_one(item, unit)}"
    if origin is dict or kind is dict:
        return "mapping"
    if unit == "bytes":
        return 'size ("8 MiB")'
    if unit == "seconds":
        return 'duration ("5 s")'
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    if kind in names:
        return names[kind]
    return "secret" if kind is Secret else getattr(kind, "__name__", str(kind))


def schema_of(kind: Any, unit: str | None = None) -> dict[str, Any]:
    """A type as JSON Schema; text is always allowed where Spark's strings are."""
    members = [m for m in _members(kind) if m is not type(None)]
    if len(members) > 1:
        return {"anyOf": [schema_of(m, unit) for m in members]}
    kind = members[0]
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return {"enum": list(typing.get_args(kind))}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    if origin in (list, tuple):
        item = (typing.get_args(kind) or (str,))[0]
        return {"anyOf": [{"type": "array", "items": schema_of(item)}, {"type": "string"}]}
    if origin is dict or kind is dict:
        return {"type": "object"}
    if unit is not None:
        return {"anyOf": [{"type": "number"}, {"type": "string"}]}
    names = {str: "string", int: "integer", float: "number", bool: "boolean", Secret: "string"}
    if kind in names:
        name = names[kind]
        return {"type": name} if name == "string" else {"type": [name, "string"]}
    return {}


def _wrong(raw: Any, kind: Any, name: str, unit: str | None) -> OptionError:
    secret = Secret in _members(kind)
    got = "***" if secret else f"{raw!r} ({type(raw).__name__})"
    return OptionError(
        f"the option {name} has the wrong type", expected=describe(kind, unit), got=got
    )
