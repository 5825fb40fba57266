"""The worker's side of the source: one part, range by range, as Arrow batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from penstock.contracts.errors import DataLossError, EphemeralReadError
from penstock_kafka import clients
from penstock_kafka.columns import Wanted
from penstock_kafka.consumer import Event, Run, RunConsumer
from penstock_kafka.faults import passing, read_fault, refused
from penstock_kafka.merging import Merge
from penstock_kafka.positions import KafkaPart, Place, Range
from penstock_kafka.settings import revealed
from penstock_kafka.source import KafkaSource
from penstock_kafka.who import WHO

log = logging.getLogger("penstock.kafka")

TUNED = {
    # librdkafka's defaults throttle a fast reader to a quarter.
    "fetch.queue.backoff.ms": "2",
    "queued.min.messages": "1000000",
    "queued.max.messages.kbytes": "65536",
    # The end of a partition is told by an empty fetch: no long polls while a task waits for it.
    "fetch.wait.max.ms": "20",
}
SMALL = {"fetch.message.max.bytes": str(256 * 1024)}
"""For small parts: what is fetched beyond their end is parsed and thrown away."""
SMALL_ROWS = 5_000
LARGE = {"fetch.message.max.bytes": str(8 * 1024 * 1024)}
"""For large parts: fewer requests, which spares the broker."""
LARGE_ROWS = 100_000
FIXED = {
    "group.id": "penstock",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
}
BATCH_BYTES = 4 * 1024 * 1024
"""An Arrow batch holds about so many bytes at most, however many rows it may have."""
FIRST_ROWS = 500
"""Taken before anything is known about the size of records."""
SAMPLE_ROWS = 1000
"""Looked at to turn a limit in bytes into one in rows."""
AHEAD = 4
"""Batches that a partition may be ahead of the others where they are merged."""
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
PATIENCE = 0.05
"""Seconds to wait for a batch to fill."""


def settings(source: KafkaSource, rows: int) -> dict[str, str]:
    """What a client that reads so many rows is made from."""
    return {
        **TUNED,
        **(SMALL if rows <= SMALL_ROWS else LARGE if rows >= LARGE_ROWS else {}),
        **revealed(source.kafka),
        **FIXED,
        "bootstrap.servers": source.servers,
        "client.id": source.client_id,
        "isolation.level": source.isolation,
    }


def read(source: KafkaSource, part: KafkaPart) -> Iterator[pa.RecordBatch]:
    """The rows of a part, the ranges in their order.

    Raises:
        DataLossError: records were deleted before they were read.
        EphemeralReadError: the brokers are silent.
    """
    consumer, key = _borrow(source, len(part))
    try:
        reading = _Merging if source.order == "event_time" else _Reading
        yield from reading(source, consumer, part).rows()
        consumer.unassign()
    except KafkaException as error:
        consumer.close()
        raise read_fault("reading", error) from None
    except BaseException:
        consumer.close()
        raise
    clients.hand_back(key, consumer)


def _borrow(source: KafkaSource, rows: int) -> tuple[RunConsumer, tuple]:
    made = settings(source, rows)
    key = ("consumer", tuple(sorted(made.items())))
    return clients.borrow(key, lambda: RunConsumer(made)), key


def sample(source: KafkaSource, starts: list[tuple[str, int, int]]) -> float | None:
    """The mean size of the first records at these places, keys and headers included.

    None if there are none, or none come in time.
    """
    consumer, key = _borrow(source, SAMPLE_ROWS)
    rows = size = 0
    waiting = {(topic, partition) for topic, partition, _ in starts}
    deadline = time.monotonic() + source.timeout
    try:
        consumer.assign(starts)
        while not rows and waiting and time.monotonic() < deadline:
            runs, events = consumer.take(SAMPLE_ROWS, PATIENCE, Wanted.by(source))
            for run in runs:
                rows += len(run.offsets)
                size += run.bytes
            for event in events:
                if event.place not in waiting:
                    continue
                if event.error.code() == KafkaError._PARTITION_EOF:
                    waiting.remove(event.place)
                elif event.error.code() in _OUT_OF_RANGE:
                    # The reader says what is lost; here what is left is looked at.
                    low, _ = consumer.log(*event.place, source.timeout)
                    consumer.remove(*event.place)
                    consumer.add(*event.place, low)
        consumer.unassign()
    except KafkaException as error:
        consumer.close()
        raise read_fault("looking at sizes", error) from None
    except BaseException:
        consumer.close()
        raise
    clients.hand_back(key, consumer)
    return max(1.0, size / rows) if rows else None


class _Reading:
    """One pass over one part."""

    def __init__(self, source: KafkaSource, consumer: RunConsumer, part: KafkaPart) -> None:
        self.source = source
        self.consumer = consumer
        self.wanted = Wanted.by(source)
        self.ranges = list(part.ranges)
        self.open: dict[Place, Range] = {(r.topic, r.partition): r for r in part.ranges}
        self.next: dict[Place, int] = {place: r.start for place, r in self.open.items()}
        self.held: dict[Place, list[pa.RecordBatch]] = {place: [] for place in self.open}
        self.seen = self.bytes = 0
        self.heard = time.monotonic()
        self.refused: KafkaError | None = None

    def rows(self) -> Iterator[pa.RecordBatch]:
        self.consumer.assign([(r.topic, r.partition, r.start) for r in self.ranges])
        small: list[pa.RecordBatch] = []
        for turn in self.ranges:
            place = (turn.topic, turn.partition)
            while True:
                small += self.held.pop(place, [])
                self.held[place] = []
                if small and (len(self.ranges) == 1 or _rows(small) >= self.source.batch_rows):
                    yield pa.concat_batches(small) if len(small) > 1 else small[0]
                    small = []
                if place not in self.open:
                    break
                self._take()
        if small:
            yield pa.concat_batches(small)

    def _take(self) -> None:
        runs, events = self.consumer.take(self._count(), PATIENCE, self.wanted)
        if runs or any(not refused(event.error) for event in events):
            self.heard, self.refused = time.monotonic(), None
        elif time.monotonic() - self.heard > self.source.timeout:
            self._silent()
        for run in runs:
            self._keep(run)
        for event in events:
            self._heed(event)

    def _count(self) -> int:
        """As many as fill a batch, or as are left: asking for more would wait for them."""
        left = sum(r.end - self.next[place] for place, r in self.open.items())
        fitting = FIRST_ROWS if not self.bytes else int(BATCH_BYTES * self.seen / self.bytes)
        return max(1, min(self.source.batch_rows, left, fitting))

    def _keep(self, run: Run) -> None:
        wanted = self.open.get(run.place)
        if wanted is None:
            return
        self.seen += len(run.offsets)
        self.bytes += run.bytes
        first, last = np.searchsorted(run.offsets, [self.next[run.place], wanted.end]).tolist()
        if last > first:
            whole = last - first == len(run.offsets)
            self.held[run.place].append(run.rows if whole else run.rows.slice(first, last - first))
        self.next[run.place] = max(self.next[run.place], int(run.offsets[-1]) + 1)
        if self.next[run.place] >= wanted.end:
            self._done(run.place)

    def _done(self, place: Place) -> None:
        del self.open[place]
        if self.open:
            self.consumer.remove(*place)

    def _heed(self, event: Event) -> None:
        code, place = event.error.code(), event.place
        if place is not None and code == KafkaError._PARTITION_EOF:
            # Aborted or compacted records may leave nothing at the last offsets.
            if place in self.open and event.offset >= self.open[place].end:
                self._done(place)
        elif code in _OUT_OF_RANGE:
            if place in self.open:
                self._lost(place)
        elif refused(event.error):
            # A dying broker breaks handshakes too: it is believed when nothing comes for long.
            self.refused = event.error
        elif not passing(event.error):
            raise KafkaException(event.error)

    def _lost(self, place: Place) -> None:
        wanted, stands = self.open[place], self.next[place]
        low, high = self.consumer.log(*place, self.source.timeout)
        # Not before the log: it was cut off, or made anew, and what is there now is not what was.
        rest = min(low, wanted.end) if low > stands else wanted.end
        lost = DataLossError(
            f"{rest - stands} records of {place[0]}-{place[1]} were deleted before they were read",
            who=WHO,
            expected=f"offset {stands}",
            got=f"the log reaches from {low} to {high}",
            fix="set on_data_loss=warn to go on without them, or keep records for longer",
        )
        if self.source.on_data_loss == "fail":
            raise lost
        log.warning("%s", lost)
        self.next[place] = rest
        if rest >= wanted.end:
            self._done(place)
        else:
            self.consumer.remove(*place)
            self.consumer.add(*place, rest)

    def _silent(self) -> None:
        if self.refused is not None:
            raise KafkaException(self.refused)
        waiting = ", ".join(f"{t}-{p}" for t, p in self.open)
        raise EphemeralReadError(
            f"no records came for {self.source.timeout:g} s",
            who=WHO,
            expected=f"records of {waiting}",
            fix="see that the brokers run and can be reached from here; it is tried again",
        )


class _Merging(_Reading):
    """One pass over one part, merged by event time."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        self.consumer.assign([(r.topic, r.partition, r.start) for r in self.ranges])
        merge = Merge(list(self.open))
        resting: set[Place] = set()
        while self.open:
            self._take()
            for place, batches in self.held.items():
                for rows in batches:
                    merge.add(place, rows)
                batches.clear()
                if place not in self.open:
                    merge.end(place)
            ready = merge.ready()
            self._rest(merge, resting)
            for first in range(0, ready.num_rows if ready else 0, self.source.batch_rows):
                yield ready.slice(first, self.source.batch_rows)

    def _rest(self, merge: Merge, resting: set[Place]) -> None:
        """A partition that runs ahead of the others is not fetched until they are near."""
        most = AHEAD * self.source.batch_rows
        for place in self.open:
            waits = merge.ahead(place) > most and place != merge.behind()
            if waits and place not in resting:
                self.consumer.remove(*place)
                resting.add(place)
            elif not waits and place in resting:
                self.consumer.add(*place, self.next[place])
                resting.remove(place)


def _rows(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)
