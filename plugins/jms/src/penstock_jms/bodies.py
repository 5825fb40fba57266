"""How JMS's own kinds of bodies become bytes, and come back.

text: UTF-8. bytes: as they are. map: a JSON object. stream: a JSON array. In JSON, numbers are
numbers, a character is a text, and a byte array is `{"$bytes": "<base64>"}`; NaN and infinities
are `{"$double": "NaN"}`. An object message is never opened.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import Any

KINDS = ("text", "bytes", "map", "stream", "object")
_INT = 2**31


class BadBody(ValueError):
    """A value that the asked kind of message cannot hold."""


def map_body(message: Any) -> bytes:
    """A map message as a JSON object."""
    listed = message.getMapNames()
    names = []
    while listed.hasMoreElements():
        names.append(str(listed.nextElement()))
    return _json({name: plain(message.getObject(name)) for name in sorted(names)})


def stream_body(message: Any) -> bytes:
    """A stream message as a JSON array."""
    import jpype

    found = []
    while True:
        try:
            found.append(plain(message.readObject()))
        except jpype.JException as error:
            if type(error).__name__.endswith(".MessageEOFException"):
                return _json(found)
            raise


def plain(value: Any) -> Any:
    """A Java value of a map or stream message as what JSON has."""
    import jpype

    if value is None:
        return None
    if isinstance(value, jpype.JArray):
        return {"$bytes": base64.b64encode(bytes(value)).decode("ascii")}
    kind = type(value).__name__.rpartition(".")[2]
    if kind == "Boolean":
        return bool(value.booleanValue())
    if kind in ("Byte", "Short", "Integer", "Long"):
        return int(value)
    if kind in ("Float", "Double"):
        # A float's shortest text, not its digits as a double: 0.1, not 0.10000000149011612.
        number = float(str(value.toString()))
        return number if math.isfinite(number) else {"$double": str(value.toString())}
    return str(value)


def fill_map(message: Any, body: bytes) -> None:
    """Put a JSON object into a map message."""
    found = _parsed(body)
    if not isinstance(found, dict) or (len(found) == 1 and next(iter(found)).startswith("$")):
        raise BadBody("a map message needs a JSON object")
    for name, value in found.items():
        if not name:
            raise BadBody("a map message has no empty names")
        message.setObject(name, boxed(value))


def fill_stream(message: Any, body: bytes) -> None:
    """Put a JSON array into a stream message."""
    found = _parsed(body)
    if not isinstance(found, list):
        raise BadBody("a stream message needs a JSON array")
    for value in found:
        message.writeObject(boxed(value))


def boxed(value: Any) -> Any:
    """A JSON value as the Java object that a map or stream message takes."""
    import jpype

    if value is None:
        return None
    if isinstance(value, bool):
        return jpype.java.lang.Boolean(value)
    if isinstance(value, int):
        if -_INT <= value < _INT:
            return jpype.java.lang.Integer(value)
        if -(_INT**2) * 2 <= value < (_INT**2) * 2:
            return jpype.java.lang.Long(value)
        raise BadBody(f"the number {value} has more than 64 bits")
    if isinstance(value, float):
        return jpype.java.lang.Double(value)
    if isinstance(value, str):
        return jpype.java.lang.String(value)
    if isinstance(value, dict) and set(value) == {"$bytes"}:
        try:
            return jpype.JArray(jpype.JByte)(base64.b64decode(value["$bytes"], validate=True))
        except (binascii.Error, TypeError, ValueError) as error:
            raise BadBody(f"$bytes holds no base64: {error}") from None
    if isinstance(value, dict) and set(value) == {"$double"}:
        try:
            return jpype.java.lang.Double(float(value["$double"].replace("Infinity", "inf")))
        except (AttributeError, ValueError):
            raise BadBody(f"$double holds no number: {str(value['$double'])[:40]}") from None
    raise BadBody(f"a JMS body holds no nested {type(value).__name__}")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadBody(f"this is no JSON: {error}") from None


def _json(found: Any) -> bytes:
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
