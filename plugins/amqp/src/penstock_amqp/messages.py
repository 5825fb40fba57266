"""Between AMQP messages and envelope rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.contracts.envelope import ENVELOPE, HEADERS, STAMP, TIMESTAMP
from penstock_amqp.deliveries import Received
from penstock_amqp.headers import TYPES, header_bytes, types_of

PREFIX = "amqp."
"""Message properties that have no column of their own are headers with this prefix."""

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

_LATEST = 253402300799  # the end of the year 9999


def headers_of(message: Received) -> list[tuple[str, bytes | None]] | None:
    """All headers of a message, and the properties that have no column; None if there are none."""
    if message.others is None and message.headers is None:
        return None
    others = message.others or {}
    found = [(PREFIX + name, header_bytes(others[name])) for name in CARRIED if name in others]
    if message.headers:
        if (types := types_of(message.headers)) is not None:
            found.append((TYPES, types))
        found.extend((name, header_bytes(value)) for name, value in message.headers.items())
    return found


def _event_time(message: Received) -> int | None:
    stamp = message.timestamp
    if stamp is None or stamp > _LATEST:  # some publishers write milliseconds or worse
        return None
    exact = (message.headers or {}).get("timestamp_in_ms")  # RabbitMQ's timestamp plugin
    if isinstance(exact, int) and exact // 1000 == stamp:
        return exact * 1000
    return int(stamp) * 1_000_000


def rows_of(
    messages: Sequence[Received], origins: dict[str, str], part: str
) -> tuple[pa.RecordBatch, pa.BooleanArray, pa.Int64Array | None]:
    """Messages as envelope rows, which were redelivered, and how often where the broker counts.

    Args:
        messages: in the channel's order.
        origins: the stamp's origin by consumer tag.
        part: names this connection for ever.
    """
    stamps = pa.StructArray.from_arrays(
        [
            pa.array([origins[message.consumer_tag] for message in messages], pa.string()),
            pa.repeat(part, len(messages)),
            pa.array([message.delivery_tag for message in messages], pa.int64()),
        ],
        fields=list(STAMP),
    )
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([message.routing_key for message in messages], pa.binary()),
            pa.array([message.body for message in messages], pa.binary()),
            _headers([headers_of(message) for message in messages]),
            pa.array([_event_time(message) for message in messages], TIMESTAMP),
            pa.array([message.message_id for message in messages], pa.string()),
            stamps,
        ],
        schema=ENVELOPE,
    )
    redelivered = pa.array([message.redelivered for message in messages], pa.bool_())
    return rows, redelivered, _deliveries(messages)


def _headers(headers: Sequence[list[tuple[str, bytes | None]] | None]) -> pa.Array:
    if not any(headers):
        return pa.nulls(len(headers), HEADERS)
    flat = [pair for each in headers if each for pair in each]
    offsets: list[int | None] = []
    at = 0
    for each in headers:
        offsets.append(at if each else None)
        at += len(each or ())
    items = pa.StructArray.from_arrays(
        [
            pa.array([name for name, _ in flat], pa.string()),
            pa.array([value for _, value in flat], pa.binary()),
        ],
        fields=list(HEADERS.value_type),
    )
    return pa.ListArray.from_arrays(pa.array([*offsets, at], pa.int32()), items, type=HEADERS)


def _deliveries(messages: Sequence[Received]) -> pa.Int64Array | None:
    """Quorum queues count deliveries in a header that the first delivery does not have."""
    counts = [_count((message.headers or {}).get("x-delivery-count")) for message in messages]
    if all(count is None for count in counts):
        return None
    return pa.array([1 if count is None else count + 1 for count in counts], pa.int64())


def _count(said: Any) -> int | None:
    """Any sender may write this header too, and anything in it."""
    number = isinstance(said, int) and not isinstance(said, bool)
    return int(said) if number and 0 <= said < 2**31 else None
