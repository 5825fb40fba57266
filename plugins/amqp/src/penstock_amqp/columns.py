"""Runs of ordinary messages as columns, without a Python object for any message.

What `deliveries` reads into a `Received` one by one is found here for all messages of a run at
once, as places in the bytes. A test holds both to the same rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from penstock.contracts.envelope import HEADERS, TIMESTAMP
from penstock_amqp.frames import AROUND, BEFORE, Frames, body_sizes, numbers
from penstock_amqp.messages import (
    LATEST,
    PREFIX,
    count_of,
    exact_time,
    listed,
    lists,
    pairs_of,
    run_of,
)
from penstock_amqp.received import CARRIED, PROPERTIES, TABLE, TEXT, table
from penstock_amqp.runs import Run

_NUMBERS = pa.array([str(n).encode() for n in range(256)], pa.binary())


@frozen(eq=False)
class Pieces:
    """Some octets of each of some messages: whose they are, where they begin, how many they are."""

    rows: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray

    def of(self, data: bytes) -> pa.BinaryArray:
        """The octets themselves."""
        # Pieces and the gaps between them make one Arrow array, of which every second is taken.
        edges = np.empty(2 * len(self.rows) + 1, np.int32)
        edges[:-1:2] = self.starts
        edges[1::2] = self.starts + self.sizes
        edges[-1] = edges[-2] if len(self.rows) else 0
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
        all_ = pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)
        return pc.take(all_, pa.array(np.arange(0, len(edges) - 1, 2)), boundscheck=False)

    def texts(self, data: bytes) -> pa.StringArray:
        """As text, whatever a sender wrote."""
        raw = self.of(data)
        try:
            return raw.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([each.decode("utf-8", "replace") for each in raw.to_pylist()])


class _Walk:
    """Goes over one part of all messages in step."""

    def __init__(self, octets: np.ndarray, at: np.ndarray) -> None:
        self._octets = octets
        self._all = np.arange(len(at))
        self.at = at

    def short(self, rows: np.ndarray | None = None) -> Pieces:
        """A text behind its length in one octet; where only some have it, these rows."""
        rows, starts = self._whose(rows)
        return self._past(Pieces(rows, starts + 1, numbers(self._octets, "u1", starts)))

    def long(self, rows: np.ndarray | None = None) -> Pieces:
        """A table with its length, which has four octets."""
        rows, starts = self._whose(rows)
        return self._past(Pieces(rows, starts, numbers(self._octets, ">u4", starts) + 4))

    def fixed(self, size: int, rows: np.ndarray | None = None) -> Pieces:
        """As many octets of each."""
        rows, starts = self._whose(rows)
        return self._past(Pieces(rows, starts, np.full(len(rows), size)))

    def numbers(self, pieces: Pieces, kind: str) -> np.ndarray:
        """Pieces that are a number of this type."""
        return numbers(self._octets, kind, pieces.starts)

    def _whose(self, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        return (self._all, self.at) if rows is None else (rows, self.at[rows])

    def _past(self, pieces: Pieces) -> Pieces:
        stops = pieces.starts + pieces.sizes
        if len(pieces.rows) == len(self.at):
            self.at = stops
        else:
            self.at = self.at.copy()
            self.at[pieces.rows] = stops
        return pieces


@frozen(eq=False)
class Ordinary:
    """A run of ordinary messages, as places in the bytes they came in."""

    data: bytes
    consumers: Pieces
    tags: np.ndarray
    redelivered: np.ndarray
    keys: Pieces
    properties: dict[str, Pieces]
    priorities: np.ndarray
    timestamps: np.ndarray
    bodies: Pieces
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.tags)

    @classmethod
    def read(cls, found: Frames, first: np.ndarray) -> Ordinary | None:
        """The messages that begin with these frames; None if one is not as it ought to be."""
        stops = found.starts + found.sizes + BEFORE
        method = _Walk(found.octets, found.starts[first] + BEFORE + 4)
        consumers = method.short()
        tags = method.numbers(method.fixed(8), ">u8")
        redelivered = method.numbers(method.fixed(1), "u1") & 1
        method.short()  # the exchange
        keys = method.short()
        header = _Walk(found.octets, found.starts[first + 1] + BEFORE + 12)
        flags = header.numbers(header.fixed(2), ">u2")
        properties = _properties(header, flags)
        sound = (method.at == stops[first]) & (header.at == stops[first + 1]) & (flags & 3 == 0)
        if not sound.all():
            return None
        said = body_sizes(found, first)
        there = {name: properties.get(name, _NONE) for name in ("priority", "timestamp")}
        return cls(
            found.data,
            consumers,
            tags,
            redelivered.astype(bool),
            keys,
            properties,
            header.numbers(there["priority"], "u1"),
            header.numbers(there["timestamp"], ">u8"),
            Pieces(keys.rows, np.where(said == 0, header.at, header.at + AROUND), said),
            found.sizes[first + 1] + said,
        )

    def run(self, origins: dict[str, str], part: str) -> Run:
        """As envelope rows; see `rows_of`."""
        count = len(self)
        tables = _Tables.of(self)
        consumers = self.consumers.of(self.data).dictionary_encode()
        named = [origins[raw.decode()] for raw in consumers.dictionary.to_pylist()]
        return run_of(
            key=self.keys.of(self.data),
            value=self.bodies.of(self.data),
            headers=self._headers(tables),
            event_time=self._event_times(tables),
            id=self._ids(),
            origin=pa.array(named, pa.string()).take(consumers.indices),
            part=part,
            tags=pa.array(self.tags),
            redelivered=pa.array(self.redelivered),
            deliveries=tables.deliveries(count),
            sizes=self.sizes,
        )

    def _ids(self) -> pa.StringArray:
        pieces = self.properties.get("message_id")
        if pieces is None:
            return pa.nulls(len(self), pa.string())
        found = pieces.texts(self.data)
        if len(found) == len(self):
            return found
        places = np.full(len(self), -1)
        places[pieces.rows] = np.arange(len(found))
        return found.take(pa.array(places, mask=places < 0))

    def _event_times(self, tables: _Tables) -> pa.Array:
        pieces = self.properties.get("timestamp")
        if pieces is None:
            return pa.nulls(len(self), TIMESTAMP)
        told = self.timestamps <= LATEST  # one of 64 bits is below 0, and masked with the others
        seconds = np.full(len(self), -1)
        seconds[pieces.rows[told]] = self.timestamps[told]
        exact = tables.exact_times(len(self))
        micros = np.where(exact // 1000 == seconds, exact * 1000, seconds * 1_000_000)
        return pa.array(micros, mask=seconds < 0).cast(TIMESTAMP)

    def _headers(self, tables: _Tables) -> pa.Array:
        """Pairs property by property, brought into the order of messages."""
        rows, names, values = [], [], []
        for name in CARRIED:
            pieces = self.properties.get(name)
            if pieces is not None:
                rows.append(pieces.rows)
                names.append(pa.repeat(PREFIX + name, len(pieces.rows)))
                if name == "priority":
                    values.append(_NUMBERS.take(pa.array(self.priorities)))
                else:
                    values.append(pieces.texts(self.data).cast(pa.binary()))
        if len(tables.rows):
            whose, pairs = tables.pairs()
            rows.append(whose)
            names.append(pairs.field("key"))
            values.append(pairs.field("value"))
        if not rows:
            return pa.nulls(len(self), HEADERS)
        whose = np.concatenate(rows)
        both = [pa.concat_arrays(names), pa.concat_arrays(values)]
        items = pa.StructArray.from_arrays(both, fields=list(HEADERS.value_type))
        if len(rows) > 1:
            items = items.take(pa.array(np.argsort(whose, kind="stable")))
        return lists(np.bincount(whose, minlength=len(self)), items)


@frozen(eq=False)
class _Tables:
    """Tables of headers: each that differs is read once.

    Attributes:
        rows: Messages that have one.
        which: Which each of them has.
        read: The different ones.
    """

    rows: np.ndarray
    which: np.ndarray
    read: list[dict[str, Any]]

    @classmethod
    def of(cls, messages: Ordinary) -> _Tables:
        """Those of a run."""
        pieces = messages.properties.get("headers", _NONE)
        if not len(pieces.rows):
            return cls(pieces.rows, pieces.rows, [])
        raw = pieces.of(messages.data).dictionary_encode()
        read = [table(each, 0)[0] or {} for each in raw.dictionary.to_pylist()]
        return cls(pieces.rows, raw.indices.to_numpy(), read)

    def exact_times(self, count: int) -> np.ndarray:
        """What tables say in milliseconds; -1 where they do not."""
        said = [exact_time(each) for each in self.read]
        return self._spread([-1 if each is None else each for each in said], count, -1)

    def deliveries(self, count: int) -> pa.Int64Array | None:
        """See `Run`."""
        counts = [count_of(each) for each in self.read]
        if all(each is None for each in counts):
            return None
        return pa.array(self._spread([1 + (each or 0) for each in counts], count, 1))

    def pairs(self) -> tuple[np.ndarray, pa.StructArray]:
        """Headers of all messages, and whose they are."""
        all_ = listed([pairs_of(each) for each in self.read]).take(pa.array(self.which))
        lengths = pc.list_value_length(all_).fill_null(0)
        return np.repeat(self.rows, lengths.to_numpy()), all_.flatten()

    def _spread(self, said: list[int], count: int, otherwise: int) -> np.ndarray:
        """What each table says, by message."""
        all_ = np.full(count, otherwise)
        if said:
            all_[self.rows] = np.array(said, np.int64)[self.which]
        return all_


_NONE = Pieces(*np.empty((3, 0), np.int64))


def _properties(header: _Walk, flags: np.ndarray) -> dict[str, Pieces]:
    """Those that any message has, by name."""
    some, all_ = int(np.bitwise_or.reduce(flags)), int(np.bitwise_and.reduce(flags))
    found = {}
    for name, bit, kind in PROPERTIES:
        if not some & bit:
            continue
        rows = None if all_ & bit else np.flatnonzero(flags & bit)
        if kind == TEXT:
            found[name] = header.short(rows)
        elif kind == TABLE:
            found[name] = header.long(rows)
        else:
            found[name] = header.fixed(kind, rows)
    return found
