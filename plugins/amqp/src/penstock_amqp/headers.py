"""AMQP's header values as bytes, as an envelope holds them, and back.

Text is text and bytes are bytes; all else is JSON, and what it was is said in one more header,
`amqp.types`. There `json` is what JSON can tell by itself; within a table or a list only what it
cannot tell is named, by field or index.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

TYPES = "amqp.types"
_UNLIKE = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, AttributeError)
"""What a value raises that is not of the type it is said to be."""


def header_bytes(value: Any) -> bytes | None:
    """A header's value as bytes: text in UTF-8, binary as it is, all else as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    return json.dumps(_plain(value), separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode()}
    return value


def types_of(headers: Mapping[str, Any]) -> bytes | None:
    """The value of `amqp.types`; None where all headers are what their bytes say."""
    found = {}
    for name, value in headers.items():
        if type(value) is not str and (kind := _kind(value)) is not None:
            found[name] = kind
    return json.dumps(found, separators=(",", ":")).encode() if found else None


def _kind(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return None
    if isinstance(value, bytes):
        return "bytes" if isinstance(text(value), str) else None
    return _unlike(value) or "json"


def _unlike(value: Any) -> Any:
    """What JSON does not tell of a value."""
    if isinstance(value, Decimal):
        return "decimal"
    if isinstance(value, datetime):
        return "timestamp"
    if isinstance(value, bytes):
        return "bytes"
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    return {str(at): kind for at, each in parts if (kind := _unlike(each)) is not None} or None


def types_in(headers: list[dict[str, Any]]) -> dict[str, Any]:
    """What `amqp.types` says of a row's headers; nothing where it is missing or makes no sense."""
    for header in headers:
        if header["key"] == TYPES and header["value"] is not None:
            try:
                said = json.loads(header["value"])
            except _UNLIKE:
                return {}
            return said if isinstance(said, dict) else {}
    return {}


def value_of(raw: bytes | None, kind: Any = None) -> Any:
    """A header's value of a type; text where none is said, or a step has put something else there."""
    if raw is None or kind == "bytes":
        return raw
    try:
        return text(raw) if kind is None else _typed(json.loads(raw), kind)
    except _UNLIKE:
        return text(raw)


def _typed(plain: Any, kind: Any) -> Any:
    if kind is None or kind == "json":
        return plain
    if kind == "decimal":
        return Decimal(plain)
    if kind == "timestamp":
        return datetime.fromisoformat(plain)
    if kind == "bytes":
        return base64.b64decode(plain["base64"], validate=True)
    if isinstance(plain, list):
        return [_typed(each, kind.get(str(at))) for at, each in enumerate(plain)]
    return {name: _typed(each, kind.get(name)) for name, each in plain.items()}


def text(raw: bytes) -> str | bytes:
    """Text where the bytes are UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
