"""Received messages as envelope rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from penstock.contracts.envelope import ENVELOPE, TIMESTAMP, stamps
from penstock_jms import bodies
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
    ("JMSPriority", "getJMSPriority", "int", 4),
    ("JMSDeliveryMode", "getJMSDeliveryMode", "int", 2),
    ("JMSExpiration", "getJMSExpiration", "long", 0),
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


def received(use: Handles, messages: Any, way: Reading, first: int) -> Received:
    """The envelope rows of a list of messages; the first has the position `first`."""
    count = messages.size()
    found = HeaderColumn(count)
    value = _values(use, messages, count, found)
    found.add("JMSCorrelationID", use.texts(messages, use.text_of("getJMSCorrelationID")))
    found.add("JMSType", use.texts(messages, use.text_of("getJMSType")))
    for name, getter, kind, usual in _DEFAULTS:
        numbers = use.numbers(messages, getter, kind)
        rows = np.flatnonzero(numbers != usual)
        if len(rows):
            found.add(name, pa.array(numbers[rows]).cast(pa.string()), rows)
    _reply_to(use, messages, found)
    again = use.numbers(messages, "getJMSRedelivered", "boolean") != 0
    key, counts = _properties(use, messages, found, way.time)
    # A client need not list the count of a message that comes for the first time.
    counts = np.where((counts < 0) & ~again, 1, counts)
    deliveries = pa.array(counts) if (counts > 0).all() else None
    when = _times(use, messages, way.time)
    ids = use.texts(messages, use.text_of("getJMSMessageID")).cast(pa.string())
    stamp = stamps(way.origin, way.part, pa.array(np.arange(first, first + count)))
    rows = pa.RecordBatch.from_arrays(
        [key, value, found.finish(), when, ids, stamp], schema=ENVELOPE
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


def _times(use: Handles, messages: Any, named: str | None) -> pa.Array:
    sent = use.numbers(messages, "getJMSTimestamp")
    times = pa.array(sent * 1000, mask=(sent <= 0) | (sent > _LATEST))
    if named is not None:
        given = use.texts(messages, use.property_text(named)).to_pylist()
        own = [_micros(each) for each in given]
        times = pc.coalesce(pa.array(own, pa.int64()), times)
    return times.cast(TIMESTAMP)


def _micros(millis: bytes | None) -> int | None:
    """A sender's own time; None if it is none that a timestamp can hold."""
    if millis is None or not millis.isdigit() or len(millis) > 20 or int(millis) > _LATEST:
        return None
    return int(millis) * 1000


def _values(use: Handles, messages: Any, count: int, found: HeaderColumn) -> pa.Array:
    kinds = {
        c.getName(): bodies.kind_of(use.java(str(c.getName())), use.namespace)
        for c in use.classes(messages)
    }
    if len(set(kinds.values())) == 1:
        kind = next(iter(kinds.values()))
        if kind != "bytes":
            found.add(BODY, pa.repeat(kind.encode(), count))
        return _bodies(use, messages, kind)
    each = np.array([bodies.kind_of(type(message), use.namespace) for message in messages])
    marked = np.flatnonzero(each != "bytes")
    found.add(BODY, pa.array(each[marked].tolist()), marked)
    places, pieces = [], []
    for kind in np.unique(each):
        rows = np.flatnonzero(each == kind)
        places.append(rows)
        pieces.append(_bodies(use, use.chosen(messages, rows), str(kind)))
    back = np.argsort(np.concatenate(places), kind="stable")
    return pa.concat_arrays(pieces).take(pa.array(back))


def _bodies(use: Handles, messages: Any, kind: str) -> pa.Array:
    if kind == "text":
        return use.texts(messages, use.text_of("getText", "TextMessage"))
    if kind == "bytes":
        return use.texts(messages, use.body_bytes)
    if kind in ("map", "stream"):
        read = bodies.map_body if kind == "map" else bodies.stream_body
        return pa.array([read(message) for message in messages], pa.binary())
    # Opening an object message would run the sender's choice of code: it stays closed.
    return pa.nulls(messages.size(), pa.binary())


def _reply_to(use: Handles, messages: Any, found: HeaderColumn) -> None:
    rows = np.flatnonzero(use.texts(messages, use.reply_to).is_valid())
    if len(rows):
        named = [_destination(messages.get(row).getJMSReplyTo(), use) for row in rows.tolist()]
        found.add("JMSReplyTo", pa.array(named), rows)


def _destination(destination: Any, use: Handles) -> str:
    if isinstance(destination, use.java(f"{use.namespace}.Queue")):
        return f"queue:{destination.getQueueName()}"
    return f"topic:{destination.getTopicName()}"


def _properties(
    use: Handles, messages: Any, found: HeaderColumn, time: str | None
) -> tuple[pa.Array, np.ndarray]:
    """Properties into headers; the key, and the delivery counts, -1 where there is none."""
    named = use.texts(messages, use.property_names).cast(pa.string()).dictionary_encode()
    groups = np.asarray(named.indices)
    count = len(groups)
    key = pa.nulls(count, pa.binary())
    deliveries = np.full(count, -1, dtype=np.int64)
    types: dict[int, dict[str, str]] = {}
    for group, text in enumerate(named.dictionary.to_pylist()):
        # A message's properties have no order: sorted, a redelivered row is the same row.
        names = sorted(set(text.split("\n")) - {"", time, DUPLICATE_ID})
        rows = np.flatnonzero(groups == group)
        some = messages if len(rows) == count else use.chosen(messages, rows)
        for name in names:
            values = use.texts(some, use.property_text(name))
            if name == _SEQUENCE:
                # Some clients list it beside every group, 0 where nobody set it.
                values = pc.if_else(pc.equal(values, b"0"), None, values)
            if name == _GROUP:
                key = _placed(key, values, rows)
                continue
            if name == _COUNT:
                deliveries[rows] = np.asarray(values.cast(pa.string()).cast(pa.int64()))
                continue
            if name.endswith(BINARY):
                values = from_base64(values)
            kinds = {} if name.startswith("JMS") else _types(use, some, name)
            found.add(header_name(name), values, rows)
            for at, kind in kinds.items():
                types.setdefault(int(rows[at]), {})[header_name(name)] = kind
    if types:
        found.add(TYPES, pa.array(map(types_text, types.values())), np.array(list(types)))
    again = np.flatnonzero(deliveries > 1)
    if len(again):
        found.add(_COUNT, pa.array(deliveries[again]).cast(pa.string()), again)
    return key, deliveries


def _types(use: Handles, messages: Any, name: str) -> dict[int, str]:
    """The types of a property's values by index, where they are not text."""
    classes = use.texts(messages, use.property_class(name)).cast(pa.string())
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
