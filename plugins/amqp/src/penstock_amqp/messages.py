"""Between AMQP messages and envelope rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.contracts.envelope import ENVELOPE, HEADERS, STAMP, TIMESTAMP
from penstock_amqp.headers import TYPES, header_bytes, types_of
from penstock_amqp.received import CARRIED, Received
from penstock_amqp.runs import Run

PREFIX = "amqp."
"""Message properties that have no column of their own are headers with this prefix."""

LATEST = 253402300799  # the end of the year 9999

Pair = tuple[str, bytes | None]


def headers_of(message: Received) -> list[Pair]:
    """All headers of a message, and the properties that have no column."""
    others = message.others or {}
    found = [(PREFIX + name, header_bytes(others[name])) for name in CARRIED if name in others]
    return found + pairs_of(message.headers or {})


def pairs_of(table: dict[str, Any]) -> list[Pair]:
    """A table as headers, and what they were."""
    types = types_of(table)
    found: list[Pair] = [] if types is None else [(TYPES, types)]
    found.extend((name, header_bytes(value)) for name, value in table.items())
    return found


def exact_time(table: dict[str, Any]) -> int | None:
    """Milliseconds, which RabbitMQ's timestamp plugin writes."""
    said = table.get("timestamp_in_ms")
    return said if isinstance(said, int) else None


def count_of(table: dict[str, Any]) -> int | None:
    """Earlier deliveries as quorum queues count them; any sender may write anything there too."""
    said = table.get("x-delivery-count")
    number = isinstance(said, int) and not isinstance(said, bool)
    return int(said) if number and 0 <= said < 2**31 else None


def _event_time(message: Received) -> int | None:
    stamp = message.timestamp
    if stamp is None or stamp > LATEST:  # some publishers write milliseconds or worse
        return None
    exact = exact_time(message.headers or {})
    return exact * 1000 if exact is not None and exact // 1000 == stamp else stamp * 1_000_000


def rows_of(messages: Sequence[Received], origins: dict[str, str], part: str) -> Run:
    """Messages as envelope rows.

    Args:
        messages: in the channel's order.
        origins: the stamp's origin by consumer tag.
        part: names this connection for ever.
    """
    return run_of(
        key=pa.array([message.routing_key for message in messages], pa.binary()),
        value=pa.array([message.body for message in messages], pa.binary()),
        headers=listed([headers_of(message) for message in messages]),
        event_time=pa.array([_event_time(message) for message in messages], TIMESTAMP),
        id=pa.array([message.message_id for message in messages], pa.string()),
        origin=pa.array([origins[message.consumer_tag] for message in messages], pa.string()),
        part=part,
        tags=pa.array([message.delivery_tag for message in messages], pa.int64()),
        redelivered=pa.array([message.redelivered for message in messages], pa.bool_()),
        deliveries=_deliveries(messages),
        sizes=np.array([message.size for message in messages], np.int64),
    )


def run_of(
    *,
    origin: pa.Array,
    part: str,
    tags: pa.Array,
    redelivered: pa.BooleanArray,
    deliveries: pa.Int64Array | None,
    sizes: np.ndarray,
    **columns: pa.Array,
) -> Run:
    """From all the columns of an envelope but the stamp, and what makes that."""
    stamps = [origin, pa.repeat(part, len(tags)), tags]
    columns["stamp"] = pa.StructArray.from_arrays(stamps, fields=list(STAMP))
    arrays = [columns[name] for name in ENVELOPE.names]
    rows = pa.RecordBatch.from_arrays(arrays, schema=ENVELOPE)
    return Run(rows, redelivered, deliveries, sizes)


def listed(headers: Sequence[list[Pair]]) -> pa.Array:
    """The column of headers; null for a message that has none."""
    if not any(headers):
        return pa.nulls(len(headers), HEADERS)
    flat = [pair for each in headers for pair in each]
    both = [
        pa.array([name for name, _ in flat], pa.string()),
        pa.array([value for _, value in flat], pa.binary()),
    ]
    items = pa.StructArray.from_arrays(both, fields=list(HEADERS.value_type))
    return lists(np.array([len(each) for each in headers]), items)


def lists(lengths: np.ndarray, items: pa.StructArray) -> pa.Array:
    """Headers of all messages, so many of each, as a column."""
    edges = pa.array(np.concatenate([[0], lengths.cumsum()]), pa.int32())
    return pa.ListArray.from_arrays(edges, items, type=HEADERS, mask=pa.array(lengths == 0))


def _deliveries(messages: Sequence[Received]) -> pa.Int64Array | None:
    """Quorum queues count deliveries in a header that the first delivery does not have."""
    counts = [count_of(message.headers or {}) for message in messages]
    if all(count is None for count in counts):
        return None
    return pa.array([1 if count is None else count + 1 for count in counts], pa.int64())
