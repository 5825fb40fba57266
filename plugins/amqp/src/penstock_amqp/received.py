"""One message as it is on the wire."""

from __future__ import annotations

import struct
from typing import Any

import pika
from attrs import define

from penstock_amqp import fields

_CONTENT = struct.Struct(">HHQH")
_TAG = struct.Struct(">QB")
_SIZE = struct.Struct(">L")

UNREADABLE = "amqp.headers"
"""The header that holds all headers as they came, if they cannot be read."""
_UNREADABLE = (ValueError, OverflowError, OSError, RecursionError, struct.error, IndexError)

TEXT, TABLE = -1, -4
"""Kinds of properties; any other is a number of so many octets."""

PROPERTIES = (
    ("content_type", 0x8000, TEXT),
    ("content_encoding", 0x4000, TEXT),
    ("headers", 0x2000, TABLE),
    ("delivery_mode", 0x1000, 1),
    ("priority", 0x0800, 1),
    ("correlation_id", 0x0400, TEXT),
    ("reply_to", 0x0200, TEXT),
    ("expiration", 0x0100, TEXT),
    ("message_id", 0x0080, TEXT),
    ("timestamp", 0x0040, 8),
    ("type", 0x0020, TEXT),
    ("user_id", 0x0010, TEXT),
    ("app_id", 0x0008, TEXT),
    ("cluster_id", 0x0004, TEXT),
)
"""Name, flag and kind, in the order in which a message has them."""

CARRIED = (
    "content_type",
    "content_encoding",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "type",
    "user_id",
    "app_id",
)
"""Properties that have no column of their own."""


@define(eq=False, slots=True)
class Received:
    """One message as the broker sent it; `size`: bytes of its body and of all its properties."""

    consumer_tag: str
    delivery_tag: int
    redelivered: bool
    routing_key: bytes
    body: bytes = b""
    message_id: str | None = None
    timestamp: int | None = None
    headers: dict[str, Any] | None = None
    others: dict[str, Any] | None = None
    size: int = 0

    @classmethod
    def of(cls, method: Any, properties: Any, body: bytes) -> Received:
        """From what pika makes of a message."""
        found = {name: getattr(properties, name) for name in CARRIED}
        return cls(
            method.consumer_tag,
            method.delivery_tag,
            method.redelivered,
            method.routing_key.encode(),
            body,
            properties.message_id,
            properties.timestamp,
            properties.headers or None,
            {name: value for name, value in found.items() if value is not None} or None,
            _CONTENT.size - 2 + sum(map(len, properties.encode())) + len(body),
        )

    @classmethod
    def begun(cls, data: bytes, at: int) -> Received:
        """From the arguments of Basic.Deliver."""
        consumer, at = _text(data, at)
        tag, redelivered = _TAG.unpack_from(data, at)
        at += 9
        at += 1 + data[at]  # the exchange
        return cls(consumer, tag, bool(redelivered & 1), data[at + 1 : at + 1 + data[at]])

    def content(self, data: bytes, at: int) -> int:
        """Read a content header; how many bytes of body follow."""
        _, _, size, flags = _CONTENT.unpack_from(data, at)
        at += _CONTENT.size
        if flags & 1:
            raise pika.exceptions.InvalidFrameError("more than one word of property flags")
        found: dict[str, Any] = {}
        for name, flag, kind in PROPERTIES:
            if not flags & flag:
                continue
            if kind == TEXT:
                found[name], at = _text(data, at)
            elif kind == TABLE:
                self.headers, at = table(data, at)
            else:
                found[name] = int.from_bytes(data[at : at + kind], "big")
                at += kind
        self.message_id = found.get("message_id")
        self.timestamp = found.get("timestamp")
        self.others = {name: found[name] for name in CARRIED if name in found} or None
        return int(size)


def table(data: bytes, at: int) -> tuple[dict[str, Any] | None, int]:
    """The headers; as one of bytes where a sender wrote what Python cannot hold."""
    end = at + 4 + _SIZE.unpack_from(data, at)[0]
    try:
        found, stop = fields.read(data, at)
        if stop == end:
            return found or None, end
    except _UNREADABLE:
        pass  # it is kept as it came
    return {UNREADABLE: data[at + 4 : end]}, end


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + data[at]
    return data[at + 1 : end].decode("utf-8", "replace"), end
