"""Deliveries straight from the wire.

pika makes a dozen objects and callbacks of every message. A consumer that takes thousands a
second needs none of them: this connection reads Basic.Deliver and its content from the bytes
itself, and leaves every other frame to pika. A test holds both ways to the same result.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pika
from attrs import define
from pika import frame

from penstock_amqp import fields

_HEAD = struct.Struct(">BHL")
_CONTENT = struct.Struct(">HHQH")
_TAG = struct.Struct(">QB")
_LONG = struct.Struct(">Q")
_SIZE = struct.Struct(">L")
_METHOD, _HEADER, _BODY = 1, 2, 3
_DELIVER = struct.pack(">HH", 60, 60)
_END = 0xCE
_AT_ONCE = 2**16
"""Bytes taken from the socket by one call; pika's own 4 KiB are a dozen small messages."""

UNREADABLE = "amqp.headers"
"""The header that holds all headers as they came, if they cannot be read."""
_UNREADABLE = (ValueError, OverflowError, OSError, RecursionError, struct.error, IndexError)

# The properties in the order of their flags, from the highest bit down.
_TEXTS_BEFORE = ("content_type", "content_encoding")
_TEXTS_BETWEEN = ("correlation_id", "reply_to", "expiration")
_TEXTS_AFTER = ("type", "user_id", "app_id", "cluster_id")


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
        names = (*_TEXTS_BEFORE, "priority", *_TEXTS_BETWEEN, *_TEXTS_AFTER[:-1])
        found = {name: getattr(properties, name) for name in names}
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


class SwiftConnection(pika.SelectConnection):
    """A connection whose deliveries on one channel go to `taken` once `watch` was called."""

    _number: int | None = None
    _taken: Callable[[Received], None]
    _message: Received | None = None
    _missing = 0
    _chunks: list[bytes]
    _tags: dict[bytes, str]

    def watch(self, number: int, taken: Callable[[Received], None]) -> None:
        """Hand deliveries of this channel over; call it before the first consume."""
        self._taken = taken
        self._chunks = []
        self._tags = {}
        self._number = number
        transport = getattr(self, "_transport", None)
        if transport is not None:
            transport._MAX_RECV_BYTES = _AT_ONCE
            transport._MAX_CONSUME_BYTES = 4 * _AT_ONCE

    def abandon(self) -> None:
        """Drop the socket of a peer that does not answer a close."""
        transport = getattr(self, "_transport", None)
        if transport is not None:
            transport.abort()

    def _on_data_available(self, data_in: bytes) -> None:
        if self._number is None:
            super()._on_data_available(data_in)
            return
        data = self._frame_buffer + data_in if self._frame_buffer else data_in
        at, length, number = 0, len(data), self._number
        while length - at >= 8:
            kind, channel, size = _HEAD.unpack_from(data, at)
            end = at + 7 + size
            if end >= length:
                break
            if data[end] != _END:
                raise pika.exceptions.InvalidFrameError("Invalid FRAME_END marker")
            if not (channel == number and self._swift(kind, data, at + 7, end)):
                self.bytes_received += end + 1 - at
                self._process_frame(frame.decode_frame(data[at : end + 1])[1])
                if self.is_closed:
                    return
            else:
                self.bytes_received += end + 1 - at
                self.frames_received += 1
            at = end + 1
        self._frame_buffer = data[at:]

    def _swift(self, kind: int, data: bytes, at: int, end: int) -> bool:
        """Take a frame that belongs to a delivery; False: it does not."""
        if kind == _METHOD:
            if data[at : at + 4] != _DELIVER:
                return False
            self._message = self._begun(data, at + 4)
            return True
        message = self._message
        if message is None:
            return False
        if kind == _HEADER:
            self._missing = _content(message, data, at)
            message.size = end - at + self._missing
        elif kind == _BODY:
            self._chunks.append(data[at:end])
            self._missing -= end - at
        else:
            return False
        if self._missing <= 0:
            self._message = None
            chunks, self._chunks = self._chunks, []
            if chunks:
                message.body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            self._taken(message)
        return True

    def _begun(self, data: bytes, at: int) -> Received:
        size = data[at]
        raw = data[at + 1 : at + 1 + size]
        consumer = self._tags.get(raw)
        if consumer is None:
            consumer = self._tags[raw] = raw.decode()
        at += 1 + size
        tag, redelivered = _TAG.unpack_from(data, at)
        at += 9
        at += 1 + data[at]  # the exchange
        return Received(consumer, tag, bool(redelivered & 1), data[at + 1 : at + 1 + data[at]])


def _content(message: Received, data: bytes, at: int) -> int:
    """Read a content header; how many bytes of body follow."""
    _, _, size, flags = _CONTENT.unpack_from(data, at)
    at += 14
    if flags & 1:
        raise pika.exceptions.InvalidFrameError("more than one word of property flags")
    others: dict[str, Any] = {}
    if flags & 0xC000:
        at = _texts(others, _TEXTS_BEFORE, flags, 15, data, at)
    if flags & 0x2000:
        message.headers, at = _table(data, at)
    if flags & 0x1000:
        at += 1  # the delivery mode
    if flags & 0x0800:
        others["priority"] = data[at]
        at += 1
    if flags & 0x0700:
        at = _texts(others, _TEXTS_BETWEEN, flags, 10, data, at)
    if flags & 0x0080:
        message.message_id = data[at + 1 : at + 1 + data[at]].decode("utf-8", "replace")
        at += 1 + data[at]
    if flags & 0x0040:
        (message.timestamp,) = _LONG.unpack_from(data, at)
        at += 8
    if flags & 0x003C:
        _texts(others, _TEXTS_AFTER, flags, 5, data, at)
        others.pop("cluster_id", None)
    if others:
        message.others = others
    return int(size)


def _table(data: bytes, at: int) -> tuple[dict[str, Any] | None, int]:
    """The headers; as one of bytes where a sender wrote what Python cannot hold."""
    end = at + 4 + _SIZE.unpack_from(data, at)[0]
    try:
        found, stop = fields.read(data, at)
        if stop == end:
            return found or None, end
    except _UNREADABLE:
        pass  # it is kept as it came
    return {UNREADABLE: data[at + 4 : end]}, end


def _texts(
    into: dict[str, Any], names: tuple[str, ...], flags: int, bit: int, data: bytes, at: int
) -> int:
    """Short strings whose flags are set, the first at this bit and the others below."""
    for name in names:
        if flags >> bit & 1:
            into[name] = data[at + 1 : at + 1 + data[at]].decode("utf-8", "replace")
            at += 1 + data[at]
        bit -= 1
    return at
