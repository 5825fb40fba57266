"""Received messages as envelope rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from penstock.contracts.envelope import ENVELOPE, TIMESTAMP, stamps
from penstock_jms import bodies
from penstock_jms.columns import BODY_KINDS, Columns
from penstock_jms.handles import Handles
from penstock_jms.headers import (
    BINARY,
    BODY,
    DUPLICATE_ID,
    TYPE_NAMES,
    TYPES,
    HeaderColumn,
    from_base64,
    header_name,
    types_text,
)

_COUNT = "JMSXDeliveryCount"
_GROUP = "JMSXGroupID"
_SEQUENCE = "JMSXGroupSeq"
_LATEST = 253402300799999  # the end of the year 9999, in milliseconds
_DEFAULTS = (
    ("JMSPriority", "getJMSPriority", 4),
    ("JMSDeliveryMode", "getJMSDeliveryMode", 2),
    ("JMSExpiration", "getJMSExpiration", 0),
)
"""Headers that every message has: they travel only where they say something."""


@frozen
class Received:
    """Envelope rows, and what the broker says of their delivery."""

    rows: pa.RecordBatch
    redelivered: pa.BooleanArray
    deliveries: pa.Int64Array | None


@frozen
class Reading:
    """Where messages come from, and what becomes their time.

    Attributes:
        origin: The stamp's origin.
        part: The stamp's part.
        time: The property that holds the event time in milliseconds; None: JMSTimestamp.
    """

    origin: str
    part: str
    time: str | None = None


def received(use: Handles, found: Columns, way: Reading, first: int) -> Received:
    """The envelope rows of messages; the first has the position `first`."""
    count = len(found.kinds)
    headers = HeaderColumn(count)
    value = _values(found, headers)
    headers.add("JMSCorrelationID", found.texts["getJMSCorrelationID"])
    headers.add("JMSType", found.texts["getJMSType"])
    for name, getter, usual in _DEFAULTS:
        numbers = found.numbers[getter]
        rows = np.flatnonzero(numbers != usual)
        if len(rows):
            headers.add(name, pa.array(numbers[rows]).cast(pa.string()), rows)
    _reply_to(use, found, headers)
    again = found.numbers["getJMSRedelivered"] != 0
    key, counts = _properties(use, found, headers, way.time)
    # A client need not list the count of a message that comes for the first time.
    counts = np.where((counts < 0) & ~again, 1, counts)
    deliveries = pa.array(counts) if (counts > 0).all() else None
    when = _times(found, way.time)
    ids = found.texts["getJMSMessageID"].cast(pa.string())
    stamp = stamps(way.origin, way.part, pa.array(np.arange(first, first + count)))
    rows = pa.RecordBatch.from_arrays(
        [key, value, headers.finish(), when, ids, stamp], schema=ENVELOPE
    )
    return Received(rows, pa.array(again), deliveries)


def joined(parts: list[Received]) -> Received:
    """Several pieces of one lease as one."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.Table.from_batches([p.rows for p in parts]).combine_chunks().to_batches()[0]
    again = pa.concat_arrays([p.redelivered for p in parts])
    counted = [p.deliveries for p in parts if p.deliveries is not None]
    every = pa.concat_arrays(counted) if len(counted) == len(parts) else None
    return Received(rows, again, every)


def _times(found: Columns, named: str | None) -> pa.Array:
    sent = found.numbers["getJMSTimestamp"]
    times = pa.array(sent * 1000, mask=(sent <= 0) | (sent > _LATEST))
    if named is not None:
        own = [_micros(each) for each in found.properties[named].to_pylist()]
        times = pc.coalesce(pa.array(own, pa.int64()), times)
    return times.cast(TIMESTAMP)


def _micros(millis: bytes | None) -> int | None:
    """A sender's own time; None if it is none that a timestamp can hold."""
    if millis is None or not millis.isdigit() or len(millis) > 20 or int(millis) > _LATEST:
        return None
    return int(millis) * 1000


def _values(found: Columns, headers: HeaderColumn) -> pa.Array:
    marked = np.flatnonzero(found.kinds != BODY_KINDS.index("bytes"))
    if not len(marked):
        return found.bodies
    headers.add(BODY, pa.array(BODY_KINDS).take(pa.array(found.kinds[marked])), marked)
    value = found.bodies
    for kind, read in (("map", bodies.map_body), ("stream", bodies.stream_body)):
        rows = np.flatnonzero(found.kinds == BODY_KINDS.index(kind))
        if len(rows):
            read_ones = [read(found.messages.get(row)) for row in rows.tolist()]
            value = _placed(value, pa.array(read_ones, pa.binary()), rows)
    return value


def _reply_to(use: Handles, found: Columns, headers: HeaderColumn) -> None:
    rows = np.flatnonzero(found.numbers["getJMSReplyTo"])
    if len(rows):
        said = (found.messages.get(row).getJMSReplyTo() for row in rows.tolist())
        headers.add("JMSReplyTo", pa.array([_destination(each, use) for each in said]), rows)


def _destination(destination: Any, use: Handles) -> str:
    if isinstance(destination, use.java(f"{use.namespace}.Queue")):
        return f"queue:{destination.getQueueName()}"
    return f"topic:{destination.getTopicName()}"


def _properties(
    use: Handles, found: Columns, headers: HeaderColumn, time: str | None
) -> tuple[pa.Array, np.ndarray]:
    """Properties into headers; the key, and the delivery counts, -1 where there is none."""
    messages = found.messages
    named = found.texts["getPropertyNames"].cast(pa.string()).dictionary_encode()
    groups = np.asarray(named.indices)
    count = len(groups)
    key = pa.nulls(count, pa.binary())
    deliveries = np.full(count, -1, dtype=np.int64)
    types: dict[int, dict[str, str]] = {}
    for group, text in enumerate(named.dictionary.to_pylist()):
        # A message's properties have no order: sorted, a redelivered row is the same row.
        names = sorted(set(text.split("\n")) - {"", time, DUPLICATE_ID})
        rows = np.flatnonzero(groups == group)
        if _COUNT in names:
            names.remove(_COUNT)
            said = found.properties[_COUNT].take(pa.array(rows))
            deliveries[rows] = np.asarray(said.cast(pa.string()).cast(pa.int64()))
        if not names:
            continue
        some = messages if len(rows) == count else use.chosen(messages, rows)
        for name in names:
            values = use.texts(some, use.value_text(name))
            if name == _SEQUENCE:
                # Some clients list it beside every group, 0 where nobody set it.
                values = pc.if_else(pc.equal(values, b"0"), None, values)
            if name == _GROUP:
                key = _placed(key, values, rows)
                continue
            if name.endswith(BINARY):
                values = from_base64(values)
            kinds = {} if name.startswith("JMS") else _types(use, some, name)
            headers.add(header_name(name), values, rows)
            for at, kind in kinds.items():
                types.setdefault(int(rows[at]), {})[header_name(name)] = kind
    if types:
        headers.add(TYPES, pa.array(map(types_text, types.values())), np.array(list(types)))
    again = np.flatnonzero(deliveries > 1)
    if len(again):
        headers.add(_COUNT, pa.array(deliveries[again]).cast(pa.string()), again)
    return key, deliveries


def _types(use: Handles, messages: Any, name: str) -> dict[int, str]:
    """The types of a property's values by index, where they are not text."""
    classes = use.texts(messages, use.value_class(name)).cast(pa.string())
    if pc.all(pc.equal(classes, "String")).as_py():
        return {}
    known = {at: TYPE_NAMES.get(each) for at, each in enumerate(classes.to_pylist())}
    return {at: kind for at, kind in known.items() if kind is not None}


def _placed(into: pa.Array, values: pa.Array, rows: np.ndarray) -> pa.Array:
    if len(rows) == len(into):
        return values
    mask = np.zeros(len(into), dtype=bool)
    mask[rows] = True
    return pc.replace_with_mask(into, pa.array(mask), values)
