"""A producer that takes whole Arrow columns, with or without transactions."""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections.abc import Callable
from ctypes import c_int, c_void_p

import numpy as np
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock_kafka.librdkafka import (
    F_COPY,
    F_PARTITION,
    LINE,
    PRODUCER,
    REPORT,
    failure,
    lib,
    new_client,
    settle,
)

log = logging.getLogger("penstock.kafka")
MESSAGE = np.dtype(
    {
        "names": ["err", "topic", "partition", "value", "size", "key", "key_size"],
        "formats": ["i4", "i8", "i4", "i8", "i8", "i8", "i8"],
        "offsets": [0, 8, 16, 24, 32, 40, 48],
        "itemsize": 72,
    }
)
"""rd_kafka_message_t."""
FIELD = np.dtype(
    {
        "names": ["kind", "first", "second", "third"],
        "formats": ["i4", "i8", "i8", "i8"],
        "offsets": [0, 8, 16, 24],
        "itemsize": 72,
    }
)
"""rd_kafka_vu_t."""
RKT, PARTITION, VALUE, KEY, FLAGS, TIMESTAMP, HEADER = 2, 3, 4, 5, 7, 8, 9
"""What a `FIELD` holds: rd_kafka_vtype_t."""
_ERROR, _WARNING = 3, 4
"""Syslog's levels."""
_FENCED = "fenced by a newer instance"
_FULL_WAIT = 0.002
_LATE = 1.0
"""Seconds beyond its own time-out after which a call counts as stuck."""
_PURGE_ALL = 0x1 | 0x2


def _logged(_: int, level: int, facility: bytes, text: bytes) -> None:
    """A line of librdkafka's log. That another worker took the id over is no news."""
    said = text.decode("utf-8", "replace")
    kind = logging.ERROR if level <= _ERROR else logging.WARNING
    kind = logging.INFO if level > _WARNING else kind
    log.log(logging.DEBUG if _FENCED in said else kind, "%s: %s", facility.decode(), said)


class ColumnProducer:
    """A librdkafka producer. One thread at a time."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._rk = lib()
        self.failed: KafkaError | None = None
        # Kept here because librdkafka calls them as long as the client lives.
        self._report, self._line = REPORT(self._heard), LINE(_logged)
        made = {**settings, "delivery.report.only.error": "true"}
        transactional = "transactional.id" in settings
        # A failed record fails its whole transaction: no report needed.
        heard = (None, self._line) if transactional else (self._report, None)
        self._handle = new_client(PRODUCER, made, *heard)
        self._topics: dict[str, int] = {}
        self._given_up = False

    def _heard(self, _: int, message: int, __: int) -> None:
        code = c_int.from_address(message).value
        if code != 0 and self.failed is None:
            self.failed = failure(code).args[0]

    def topic(self, name: str, patience: float) -> int:
        """The handle of a topic, made once and known to have these partitions.

        An explicit partition of a topic that librdkafka has not yet heard of would fail the
        transaction.
        """
        if name not in self._topics:
            made = self._rk.topic_new(self._handle, name.encode(), None)
            if not made:
                raise failure(KafkaError._INVALID_ARG, f"{name!r} is no name of a topic")
            self._topics[name] = int(made)
            answer = c_void_p()
            code = self._rk.metadata(
                self._handle, 0, made, ctypes.byref(answer), int(patience * 1000)
            )
            if code != 0:
                raise failure(code)
            self._rk.metadata_destroy(answer)
        return self._topics[name]

    def send(self, topic: str, messages: np.ndarray, patience: float) -> None:
        """Queue `MESSAGE`s in their order; `err` then says of each what came of it.

        Raises:
            KafkaException: the queue stays full, or the producer can send nothing any more.
        """
        handle = self.topic(topic, patience)
        left = messages
        deadline = time.monotonic() + patience
        while len(left):
            self._rk.produce_batch(handle, -1, F_COPY | F_PARTITION, left.ctypes.data, len(left))
            full = np.flatnonzero(left["err"] == KafkaError._QUEUE_FULL)
            if not len(full):
                break
            # After the first one that found no room librdkafka tries none of the rest.
            if full[0] > 0:
                deadline = time.monotonic() + patience
            left = left[full[0] :]
            self._wait(deadline)
        self.poll(0)

    def send_each(self, fields: np.ndarray, counts: np.ndarray, patience: float) -> np.ndarray:
        """Queue records one by one, each given as `counts` consecutive `FIELD`s.

        Returns:
            For each record 0, or the code of its error.

        Raises:
            KafkaException: the queue stays full, or the producer can send nothing any more.
        """
        rk, handle = self._rk, self._handle
        codes = np.zeros(len(counts), np.int32)
        ends = np.cumsum(counts)
        starts = (fields.ctypes.data + FIELD.itemsize * (ends - counts)).tolist()
        for row, (start, count) in enumerate(zip(starts, counts.tolist(), strict=True)):
            deadline = None
            while error := rk.produceva(handle, start, count):
                code = rk.error_code(error)
                rk.error_destroy(error)
                if code != KafkaError._QUEUE_FULL:
                    codes[row] = code
                    break
                deadline = deadline or time.monotonic() + patience
                self._wait(deadline)
        self.poll(0)
        return codes

    def _wait(self, deadline: float) -> None:
        said = ctypes.create_string_buffer(512)
        if code := self._rk.fatal_error(self._handle, said, len(said)):
            raise failure(code, said.value.decode("utf-8", "replace"), fatal=True)
        if time.monotonic() > deadline:
            raise failure(KafkaError._TIMED_OUT, "the producer's queue stays full")
        self.poll(_FULL_WAIT)

    def poll(self, timeout: float) -> None:
        """Hear what became of records."""
        self._rk.poll(self._handle, int(timeout * 1000))

    def flush(self, timeout: float) -> bool:
        """Wait until all is sent; False if it is not within `timeout`."""
        return self._rk.flush(self._handle, int(timeout * 1000)) == 0

    def init_transactions(self, timeout: float) -> None:
        """Take the transactional id over, and settle what its last holder left."""
        settle(self._rk.init_transactions(self._handle, int(timeout * 1000)))

    def begin_transaction(self) -> None:
        """Begin one."""
        settle(self._rk.begin_transaction(self._handle))

    def send_offset(self, group: str, mark: TopicPartition, timeout: float) -> None:
        """Commit an offset of a group inside the transaction.

        librdkafka does not keep this call's time-out: if a connection breaks at the wrong moment,
        it waits for the group's coordinator for ever (librdkafka's issue 5456). So the call has a
        thread of its own, and a producer whose call is late is given up.
        """
        call = _Call(lambda: self._send_offset(group, mark, timeout), self._free)
        if not call.ended(timeout + _LATE):
            self._given_up = True
            raise failure(KafkaError._TIMED_OUT, "the group's coordinator does not answer")
        if call.error is not None:
            raise call.error

    def _send_offset(self, group: str, mark: TopicPartition, timeout: float) -> None:
        rk = self._rk
        listed = rk.topic_partition_list_new(1)
        member = rk.consumer_group_metadata_new(group.encode())
        try:
            topic = mark.topic.encode()
            place = rk.topic_partition_list_add(listed, topic, mark.partition)
            _note(place, mark.offset, (mark.metadata or "").encode())
            settle(
                rk.send_offsets_to_transaction(self._handle, listed, member, int(timeout * 1000))
            )
        finally:
            rk.consumer_group_metadata_destroy(member)
            rk.topic_partition_list_destroy(listed)

    def commit_transaction(self, timeout: float) -> None:
        """Send what is queued, then commit."""
        settle(self._rk.commit_transaction(self._handle, int(timeout * 1000)))

    def abort_transaction(self, timeout: float) -> None:
        """Drop what is queued, then abort."""
        settle(self._rk.abort_transaction(self._handle, int(timeout * 1000)))

    def close(self) -> None:
        """Forget what is not sent; free threads and sockets."""
        if not self._given_up:
            self._free()

    def _free(self) -> None:
        if self._handle:
            self.poll(0)
            self._rk.purge(self._handle, _PURGE_ALL)
            self._rk.flush(self._handle, 1000)
            for handle in self._topics.values():
                self._rk.topic_destroy(handle)
            self._rk.destroy_flags(self._handle, 0)
            self._handle = 0


class _Call:
    """A call that may outlast everybody's patience; what it holds is then freed when it ends."""

    def __init__(self, work: Callable[[], None], free: Callable[[], None]) -> None:
        self.error: KafkaException | None = None
        self._work, self._free = work, free
        self._lock = threading.Lock()
        self._over = self._late = False
        self._thread = threading.Thread(target=self._run, name="penstock-kafka", daemon=True)
        self._thread.start()

    def ended(self, seconds: float) -> bool:
        """Whether it ends in time; if not, nobody asks again."""
        self._thread.join(seconds)
        with self._lock:
            self._late = not self._over
            return self._over

    def _run(self) -> None:
        try:
            self._work()
        except KafkaException as error:
            self.error = error
        with self._lock:
            self._over = True
            late = self._late
        if late:
            self._free()


class _Place(ctypes.Structure):
    """rd_kafka_topic_partition_t, as far as we touch it."""

    _fields_ = (
        ("topic", c_void_p),
        ("partition", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("metadata", c_void_p),
        ("metadata_size", ctypes.c_size_t),
    )


def _note(place: int, offset: int, metadata: bytes) -> None:
    """Set offset and metadata; the list frees the metadata, so it comes from C's own heap."""
    entry = _Place.from_address(place)
    entry.offset = offset
    if metadata:
        entry.metadata = _strdup(metadata)
        # With its final zero: confluent-kafka reads it back as a C string.
        entry.metadata_size = len(metadata) + 1


def _strdup(text: bytes) -> int:
    duplicate = ctypes.PyDLL(None).strdup
    duplicate.restype, duplicate.argtypes = c_void_p, [ctypes.c_char_p]
    return int(duplicate(text))
