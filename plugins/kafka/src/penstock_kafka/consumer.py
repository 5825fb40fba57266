"""A consumer that hands over whole runs of records as Arrow columns."""

from __future__ import annotations

import ctypes
from ctypes import c_int64
from itertools import pairwise

import numpy as np
import pyarrow as pa
from attrs import frozen
from confluent_kafka import KafkaError

from penstock_kafka.columns import Memory, Wanted, columns
from penstock_kafka.librdkafka import (
    CONSUMER,
    NO_CONSUMER_CLOSE,
    Places,
    failure,
    lib,
    new_client,
    settle,
)
from penstock_kafka.positions import Place
from penstock_kafka.taken import Taken

MOST = 100_000
"""Records taken at once at most."""


@frozen
class Run:
    """Records of one partition that came one after the other."""

    place: Place
    offsets: np.ndarray
    rows: pa.RecordBatch
    bytes: int


@frozen
class Event:
    """What the consumer says of a partition instead of a record; `place` None: of itself."""

    place: Place | None
    offset: int
    error: KafkaError


class RunConsumer:
    """A librdkafka consumer with partitions assigned by hand. One thread at a time."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._rk = lib()
        self._handle = new_client(CONSUMER, settings)
        self._rk.poll_set_consumer(self._handle)
        self._queue = self._rk.queue_get_consumer(self._handle)

    def assign(self, offsets: list[tuple[str, int, int]]) -> None:
        """Read these partitions from these offsets, and nothing else."""
        with Places(offsets) as listed:
            _check(self._rk.assign(self._handle, listed))

    def add(self, topic: str, partition: int, offset: int) -> None:
        """Read one more partition."""
        with Places([(topic, partition, offset)]) as listed:
            settle(self._rk.incremental_assign(self._handle, listed))

    def remove(self, topic: str, partition: int) -> None:
        """Stop reading a partition."""
        with Places([(topic, partition, -1001)]) as listed:
            settle(self._rk.incremental_unassign(self._handle, listed))

    def unassign(self) -> None:
        """Read nothing."""
        _check(self._rk.assign(self._handle, None))

    def log(self, topic: str, partition: int, timeout: float) -> tuple[int, int]:
        """The first offset a partition still has, and the one after its last."""
        low, high = c_int64(), c_int64()
        _check(
            self._rk.query_watermark_offsets(
                self._handle,
                topic.encode(),
                partition,
                ctypes.byref(low),
                ctypes.byref(high),
                int(timeout * 1000),
            )
        )
        return low.value, high.value

    def take(self, count: int, timeout: float, wanted: Wanted) -> tuple[list[Run], list[Event]]:
        """Up to `count` records; fewer when `timeout` has passed."""
        with Taken(min(count, MOST)) as taken:
            if taken.fill(self._queue, timeout) <= 0:
                return [], []
            return self._apart(Memory(taken.pointers), wanted)

    def _apart(self, memory: Memory, wanted: Wanted) -> tuple[list[Run], list[Event]]:
        errors, topics, partitions = memory.errors(), memory.topics(), memory.partitions()
        changes = (np.diff(topics) != 0) | (np.diff(partitions) != 0) | (np.diff(errors) != 0)
        edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(topics)]
        names: dict[int, str] = {}
        runs: list[Run] = []
        events: list[Event] = []
        for first, last in pairwise(edges):
            topic = int(topics[first])
            if topic and topic not in names:
                names[topic] = self._rk.topic_name(topic).decode()
            place = (names[topic], int(partitions[first])) if topic else None
            piece = memory.slice(first, last)
            if errors[first] == 0 and place is not None:
                rows = columns(piece, place, wanted)
                runs.append(Run(place, piece.offsets(), rows, rows.nbytes))
            else:
                events += self._events(piece, place, int(errors[first]))
        return runs, events

    def _events(self, piece: Memory, place: Place | None, code: int) -> list[Event]:
        events = []
        for pointer, offset in zip(piece.pointers.tolist(), piece.offsets().tolist(), strict=True):
            text = self._rk.message_errstr(pointer)
            said = text.decode("utf-8", "replace") if text else None
            events.append(Event(place, offset, failure(code, said).args[0]))
        return events

    def close(self) -> None:
        """Free threads and sockets."""
        if self._handle:
            self._rk.queue_destroy(self._queue)
            self._rk.destroy_flags(self._handle, NO_CONSUMER_CLOSE)
            self._handle = 0


def _check(code: int) -> None:
    if code != 0:
        raise failure(code)
