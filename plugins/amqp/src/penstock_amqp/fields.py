"""AMQP's tables of headers, from bytes and to bytes.

As pika reads and writes them, but for what it cannot: it cuts floating-point numbers down to whole
ones when it reads, and writes none. A test holds both to the same result.
"""

from __future__ import annotations

import calendar
import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika

from penstock_amqp.headers import text

_FIXED = {
    kind[0]: struct.Struct(f">{kind[1]}")
    for kind in ("bb", "BB", "Uh", "sh", "uH", "Ii", "iI", "lq", "Lq", "ff", "dd")
}
_SIZE = struct.Struct(">I")
_DECIMAL = struct.Struct(">Bi")
_SECONDS = struct.Struct(">Q")
_DIGITS = 10
"""A decimal's number has 32 bits."""


def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    """A table, and where it ends.

    Raises:
        ValueError, OverflowError, OSError, RecursionError, struct.error, IndexError: it holds what
            is no field, or what Python has no value for.
    """
    end = at + 4 + _SIZE.unpack_from(data, at)[0]
    at += 4
    found: dict[str, Any] = {}
    while at < end:
        name = data[at + 1 : at + 1 + data[at]].decode()
        found[name], at = _read(data, at + 1 + data[at])
    return found, at


def _read(data: bytes, at: int) -> tuple[Any, int]:
    kind, at = chr(data[at]), at + 1
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed.unpack_from(data, at)[0], at + fixed.size
    if kind == "t":
        return data[at] != 0, at + 1
    if kind == "V":
        return None, at
    if kind == "T":
        return datetime.fromtimestamp(_SECONDS.unpack_from(data, at)[0], UTC), at + 8
    if kind == "D":
        places, raw = _DECIMAL.unpack_from(data, at)
        return Decimal(raw).scaleb(-places), at + 5
    if kind == "F":
        return read(data, at)
    if kind not in "SxA":
        raise ValueError(f"no field is of the type {kind!r}")
    begin = at + 4
    end = begin + _SIZE.unpack_from(data, at)[0]
    if end > len(data):
        raise IndexError(f"a field of the type {kind!r} ends before its length")
    if kind != "A":
        return data[begin:end] if kind == "x" else text(data[begin:end]), end
    listed, at = [], begin
    while at < end:
        value, at = _read(data, at)
        listed.append(value)
    return listed, at


def written(table: dict[str, Any]) -> bytes:
    """A table as bytes.

    Raises:
        ValueError, RecursionError, struct.error: a value that AMQP has no field for.
    """
    pieces = []
    for name, value in table.items():
        raw = name.encode()
        pieces += [struct.pack("B", len(raw)), raw, _written(value)]
    whole = b"".join(pieces)
    return _SIZE.pack(len(whole)) + whole


def _written(value: Any) -> bytes:
    if value is None:
        return b"V"
    if isinstance(value, bool):
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, int):
        return b"I" + struct.pack(">i", value) if -(2**31) <= value < 2**31 else _long(value)
    if isinstance(value, float):
        return b"d" + struct.pack(">d", value)
    if isinstance(value, str | bytes):
        kind, raw = (b"S", value.encode()) if isinstance(value, str) else (b"x", value)
        return kind + _SIZE.pack(len(raw)) + raw
    if isinstance(value, Decimal):
        places = -int(value.as_tuple().exponent)
        if places < -_DIGITS:
            raise ValueError(f"the decimal {value} is too large")
        return b"D" + _DECIMAL.pack(max(0, places), int(value.scaleb(max(0, places))))
    if isinstance(value, datetime):
        return b"T" + _SECONDS.pack(calendar.timegm(value.utctimetuple()))
    if isinstance(value, list):
        whole = b"".join(_written(each) for each in value)
        return b"A" + _SIZE.pack(len(whole)) + whole
    if isinstance(value, dict):
        return b"F" + written(value)
    raise ValueError(f"AMQP has no field for {type(value).__name__}")


def _long(value: int) -> bytes:
    return b"l" + struct.pack(">q", value)


class Properties(pika.BasicProperties):  # type: ignore[misc]
    """A message's properties, whose headers may be of any type."""

    table: bytes | None = None

    def encode(self) -> list[bytes]:
        """As pika does; `table`, where there is one, in the place of the headers."""
        if self.table is None:
            return super().encode()  # type: ignore[no-any-return]
        headers, self.headers = self.headers, None
        try:
            flags, *pieces = super().encode()
        finally:
            self.headers = headers
        first = sum(2 for text in (self.content_type, self.content_encoding) if text is not None)
        (held,) = struct.unpack(">H", flags)
        told = struct.pack(">H", held | self.FLAG_HEADERS)
        return [told, *pieces[:first], self.table, *pieces[first:]]
