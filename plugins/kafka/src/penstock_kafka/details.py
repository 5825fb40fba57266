"""Timestamps, their kinds and the leader epochs of many records at once.

librdkafka tells them through functions of one record. Such a call, once per record, would take
longer than all the rest of reading. The functions copy what lies behind the public part of a
record, at distances that a build of librdkafka fixes. They are found by asking about a record that
we made up, in which every piece of memory is different: the answer tells which was copied. Where
it is none of them, or a real record says otherwise, every record is asked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int

import numpy as np
import pyarrow as pa
from attrs import define, field

from penstock_kafka.librdkafka import lib

_HALVES = 128
"""Half words of the record that we make up: more than any build has."""
_TOPIC = slice(2, 4)


@define
class Detail:
    """One detail of records, and where it lies once a record was seen.

    Attributes:
        ask: Tells it of the record at an address.
        kind: Of its values.
        place: How many bytes behind a record's address it lies; None: nobody knows.
    """

    ask: Callable[[int], int]
    kind: type[np.signedinteger]
    place: int | None = None
    _sought: bool = field(default=False, init=False)

    def of(self, pointers: np.ndarray) -> np.ndarray:
        """The detail of each of some records."""
        if not self._sought:
            self.place, self._sought = self._find(int(pointers[0])), True
        if self.place is None:
            return np.fromiter(map(self.ask, pointers.tolist()), self.kind, len(pointers))
        size = np.dtype(self.kind).itemsize
        base = int(pointers.min())
        span = int(pointers.max()) - base + size
        memory = np.frombuffer(pa.foreign_buffer(base + self.place, span), self.kind)
        return memory.take((pointers - base) // size)

    def _find(self, real: int) -> int | None:
        made_up = np.arange(1, _HALVES + 1, dtype=np.int32)
        made_up[: _TOPIC.start] = 0  # no error
        made_up[_TOPIC] = np.frombuffer(pa.foreign_buffer(real + 8, 8), np.int32)
        values = made_up.view(self.kind)
        found = np.flatnonzero(values == self.ask(made_up.ctypes.data))
        if len(found) != 1:
            return None
        place = int(found[0]) * values.itemsize
        there = np.frombuffer(pa.foreign_buffer(real + place, values.itemsize), self.kind)
        return place if there[0] == self.ask(real) else None


def _time(record: int) -> int:
    return int(lib().message_timestamp(record, None))


def _kind(record: int) -> int:
    kind = c_int()
    lib().message_timestamp(record, ctypes.addressof(kind))
    return kind.value


def _epoch(record: int) -> int:
    return int(lib().message_leader_epoch(record))


times = Detail(_time, np.int64)
"""Milliseconds; -1 where there is none. One for the process, as there is one librdkafka in it."""
kinds = Detail(_kind, np.int32)
"""Who set the timestamp: 1 the producer, 2 the broker."""
epochs = Detail(_epoch, np.int32)
"""Leader epochs; -1 where there is none."""
