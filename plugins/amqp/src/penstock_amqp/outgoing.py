"""From rows to messages: routing keys, properties, deterministic ids."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import define

from penstock.contracts.envelope import column
from penstock_amqp import fields
from penstock_amqp.headers import TYPES, types_in, value_of
from penstock_amqp.messages import PREFIX
from penstock_amqp.received import CARRIED

if TYPE_CHECKING:
    from penstock_amqp.sink import AmqpSink

_BROKERS_OWN = {"x-delivery-count", "CC", "BCC"}
"""What a broker has read when it took the message: none of it is for the next one."""
_HISTORY = "x-death"
"""Brokers drop a message that says it was here before; as text nobody believes it."""
_SHORT = 255
_MOST_HEADERS = 126_000
"""Properties and headers travel in one frame, of 128 KiB at most."""
_LONGEST_EXPIRATION = 2**32 - 1


class Unsendable(ValueError):
    """A row that cannot become a message."""


@define(eq=False)
class Outgoing:
    """A message on its way, and the row it came from; `error`: why it has to stay."""

    rows: pa.RecordBatch
    index: int
    routing_key: str
    body: bytes
    properties: fields.Properties
    error: str | None = None


def outgoing(sink: AmqpSink, rows: pa.RecordBatch, prefix: str, first: int) -> Iterator[Outgoing]:
    """The messages of rows; row n of a task without an id of its own gets `prefix/n`.

    One with an error is not to be sent: the broker or the client would refuse all others with it.
    """
    count = rows.num_rows
    keys = _keys(sink, rows)
    ids = _column(rows, "id", count)
    times = _times(rows, count)
    headers = _column(rows, "headers", count)
    values = rows.column("value").to_pylist()
    fixed = {
        "delivery_mode": 2 if sink.persistent else 1,
        "content_type": sink.content_type,
        "priority": sink.priority,
        "expiration": None if sink.expiration is None else str(int(sink.expiration * 1000)),
        "reply_to": sink.reply_to,
        "type": sink.message_type,
        "app_id": sink.app_id,
    }
    for index in range(count):
        properties = fields.Properties(
            **fixed,
            message_id=ids[index] or f"{prefix}/{first + index}",
            timestamp=times[index],
        )
        message = Outgoing(rows, index, keys[index] or "", values[index] or b"", properties)
        try:
            if headers[index]:
                _apply(properties, headers[index], fixed)
            if sink.correlate and properties.correlation_id is None:
                properties.correlation_id = properties.message_id
            _short("the routing key", message.routing_key)
            _short("the id", properties.message_id)
        except Unsendable as error:
            message.error = str(error)
        yield message


def _keys(sink: AmqpSink, rows: pa.RecordBatch) -> list[str | None]:
    if sink.routing_key is not None:
        return [sink.routing_key] * rows.num_rows
    if sink.routing_key_field is not None:
        named: list[str | None] = rows.column(sink.routing_key_field).to_pylist()
        return named
    found = _column(rows, "key", rows.num_rows)
    return [key if key is None else key.decode("utf-8", "replace") for key in found]


def _column(rows: pa.RecordBatch, name: str, count: int) -> list[Any]:
    found = column(rows, name)
    return [None] * count if found is None else found.to_pylist()


def _times(rows: pa.RecordBatch, count: int) -> list[int | None]:
    found = column(rows, "event_time")
    if found is None or not pa.types.is_timestamp(found.type):
        return [None] * count
    micros = found.cast(pa.timestamp("us", found.type.tz)).cast(pa.int64())
    return [None if t is None or t < 0 else t // 1_000_000 for t in micros.to_pylist()]


def _apply(
    properties: fields.Properties, headers: list[dict[str, Any]], fixed: dict[str, Any]
) -> None:
    table: dict[str, Any] = {}
    types = types_in(headers)
    types.pop(_HISTORY, None)
    size = 0
    for header in headers:
        name, value = header["key"], header["value"]
        if name in _BROKERS_OWN or name == TYPES:
            continue
        bare = name.removeprefix(PREFIX)
        if bare != name and bare in CARRIED and value is not None:
            if bare != "user_id" and fixed.get(bare) is None:  # only the user itself may send it
                setattr(properties, bare, _property(name, value.decode("utf-8", "replace")))
            continue
        _short("a header's name", name)
        table[name] = value_of(value, types.get(name))
        size += len(name.encode()) + len(value or b"") + 6
    if types:
        properties.table = _written(table)
        size = len(properties.table)
    if size > _MOST_HEADERS:
        raise Unsendable(f"the headers are {size} bytes; at most {_MOST_HEADERS} fit a frame")
    properties.headers = table or None


def _written(table: dict[str, Any]) -> bytes:
    try:
        return fields.written(table)
    except (ValueError, OverflowError, RecursionError, struct.error) as error:
        raise Unsendable(f"the headers hold a value that AMQP has no field for: {error}") from error


def _property(name: str, text: str) -> str | int:
    if name == PREFIX + "priority":
        if not _whole(text, 255):
            raise Unsendable(f"{name} is a number from 0 to 255, not {text[:40]!r}")
        return int(text)
    if name == PREFIX + "expiration" and not _whole(text, _LONGEST_EXPIRATION):
        raise Unsendable(f"{name} is a number of milliseconds, not {text[:40]!r}")
    _short(name, text)
    return text


def _whole(text: str, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= most


def _short(what: str, text: str) -> None:
    """AMQP writes the length of names, keys and properties in one byte."""
    if len(text) > _SHORT // 4 and len(text.encode()) > _SHORT:
        raise Unsendable(f"{what} is {len(text.encode())} bytes long, and {_SHORT} at most fit")
