"""From rows to messages: routing keys, properties, deterministic ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pika
import pyarrow as pa
from attrs import define

from penstock.contracts.envelope import column
from penstock_amqp.messages import CARRIED, PREFIX

if TYPE_CHECKING:
    from penstock_amqp.sink import AmqpSink

_BROKERS_OWN = {"x-delivery-count"}
_NUMBERS = {"priority"}


@define(eq=False)
class Outgoing:
    """A message on its way, and the row it came from."""

    rows: pa.RecordBatch
    index: int
    routing_key: str
    body: bytes
    properties: pika.BasicProperties
    error: str | None = None


def outgoing(sink: AmqpSink, rows: pa.RecordBatch, prefix: str, first: int) -> Iterator[Outgoing]:
    """The messages of rows; row n of a task without an id of its own gets `prefix/n`."""
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
        properties = pika.BasicProperties(
            **fixed,
            message_id=ids[index] or f"{prefix}/{first + index}",
            timestamp=times[index],
        )
        if headers[index]:
            _apply(properties, headers[index], fixed)
        if sink.correlate and properties.correlation_id is None:
            properties.correlation_id = properties.message_id
        yield Outgoing(rows, index, keys[index] or "", values[index] or b"", properties)


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
    properties: pika.BasicProperties, headers: list[dict[str, Any]], fixed: dict[str, Any]
) -> None:
    table: dict[str, Any] = {}
    for header in headers:
        name, value = header["key"], header["value"]
        if name in _BROKERS_OWN:
            continue
        bare = name.removeprefix(PREFIX)
        if bare != name and bare in CARRIED and value is not None:
            if bare != "user_id" and fixed.get(bare) is None:  # only the user itself may send it
                text = value.decode("utf-8", "replace")
                setattr(properties, bare, int(text) if bare in _NUMBERS else text)
            continue
        table[name] = _text(value)
    properties.headers = table or None


def _text(value: bytes | None) -> str | bytes | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
