"""The worker's side of the source: one part, range by range, as Arrow batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.contracts.errors import DataLossError, EphemeralReadError
from penstock_kafka import clients
from penstock_kafka.columns import rows_of
from penstock_kafka.faults import passing, read_fault, settings_fault
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
    "fetch.message.max.bytes": str(8 * 1024 * 1024),
    # The end of a partition is told by an empty fetch: no long polls while a task waits for it.
    "fetch.wait.max.ms": "20",
}
FIXED = {
    "group.id": "penstock",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
}


def settings(source: KafkaSource) -> dict[str, str]:
    """What a reading client is made from."""
    return {
        **TUNED,
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
    made = settings(source)
    key = ("consumer", tuple(sorted(made.items())))

    def make() -> Consumer:
        try:
            return Consumer(made)
        except KafkaException as error:
            raise settings_fault(error) from None

    consumer = clients.borrow(key, make)
    try:
        yield from _Reading(source, consumer, part).rows()
        consumer.unassign()
    except KafkaException as error:
        consumer.close()
        raise read_fault("reading", error) from None
    except BaseException:
        consumer.close()
        raise
    clients.hand_back(key, consumer)


class _Reading:
    """One pass over one part."""

    def __init__(self, source: KafkaSource, consumer: Consumer, part: KafkaPart) -> None:
        self.source = source
        self.consumer = consumer
        self.ranges = list(part.ranges)
        self.open: dict[Place, Range] = {(r.topic, r.partition): r for r in part.ranges}
        self.held: dict[Place, list[Message]] = {place: [] for place in self.open}
        self.heard = time.monotonic()

    def rows(self) -> Iterator[pa.RecordBatch]:
        self.consumer.assign([TopicPartition(r.topic, r.partition, r.start) for r in self.ranges])
        full = self.source.batch_rows
        for turn in self.ranges:
            place = (turn.topic, turn.partition)
            while place in self.open:
                self._take(self.consumer.consume(full, 0.05))
                while len(self.held[place]) >= full:
                    yield self._emit(place, full)
            while self.held[place]:
                yield self._emit(place, full)

    def _emit(self, place: Place, count: int) -> pa.RecordBatch:
        messages = self.held[place]
        self.held[place] = messages[count:]
        return rows_of(self.source, *place, messages[:count])

    def _take(self, messages: list[Message]) -> None:
        if messages:
            self.heard = time.monotonic()
        elif time.monotonic() - self.heard > self.source.timeout:
            waiting = ", ".join(f"{t}-{p}" for t, p in self.open)
            raise EphemeralReadError(
                f"no records came for {self.source.timeout:g} s",
                who=WHO,
                expected=f"records of {waiting}",
                fix="see that the brokers run and can be reached from here; it is tried again",
            )
        for message in messages:
            error = message.error()
            if error is not None:
                self._heed(message, error)
                continue
            place = (message.topic(), message.partition())
            wanted = self.open.get(place)
            if wanted is None:
                continue
            if message.offset() < wanted.end:
                self.held[place].append(message)
            if message.offset() >= wanted.end - 1:
                self._done(place)

    def _done(self, place: Place) -> None:
        del self.open[place]
        if self.open:
            self.consumer.incremental_unassign([TopicPartition(*place)])

    def _heed(self, message: Message, error: KafkaError) -> None:
        place = (message.topic(), message.partition())
        if error.code() == KafkaError._PARTITION_EOF:
            # Aborted or compacted records may leave nothing at the last offsets.
            if place in self.open and message.offset() >= self.open[place].end:
                self._done(place)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._lost(place)
        elif not passing(error):
            raise KafkaException(error)

    def _lost(self, place: Place) -> None:
        if place not in self.open:
            return
        wanted = self.open[place]
        held = self.held[place]
        stands = held[-1].offset() + 1 if held else wanted.start
        low, _ = self.consumer.get_watermark_offsets(
            TopicPartition(*place), timeout=self.source.timeout
        )
        gone = min(low, wanted.end) - stands
        lost = DataLossError(
            f"{gone} records of {place[0]}-{place[1]} were deleted before they were read",
            who=WHO,
            expected=f"offset {stands}",
            got=f"the log begins at {low}",
            fix="set on_data_loss=warn to go on without them, or keep records for longer",
        )
        if self.source.on_data_loss == "fail":
            raise lost
        log.warning("%s", lost)
        if low >= wanted.end:
            self._done(place)
        else:
            self.consumer.incremental_unassign([TopicPartition(*place)])
            self.consumer.incremental_assign([TopicPartition(*place, low)])
