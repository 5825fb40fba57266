"""Arrow rows as Kafka records, by address: no Python object per record."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError

from penstock.contracts import Receipt, Rejected
from penstock.contracts.envelope import column
from penstock.contracts.errors import WriteError
from penstock_kafka import producer as to
from penstock_kafka.librdkafka import F_COPY, failure, lib
from penstock_kafka.sink import KafkaSink
from penstock_kafka.who import WHO

_REFUSED_ALONE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._INVALID_ARG)
_FIXED = 6
"""Fields of a record beside its headers."""
_NOWHERE = np.zeros(1, np.int64)
"""What an empty value points to: librdkafka takes a null address for a null."""


class Sender:
    """Hands rows to a producer, which sends them in the background."""

    def __init__(self, sink: KafkaSink, producer: to.ColumnProducer) -> None:
        self.sink = sink
        self.producer = producer
        self.rows = 0
        self.rejected: list[Rejected] = []

    def send(self, rows: pa.RecordBatch) -> None:
        """Queue rows; waits while the producer's queue is full.

        Raises:
            KafkaException: the producer cannot go on.
            WriteError: a record names a partition that its topic does not have.
        """
        for topic, some in self._by_topic(rows):
            if topic is None:
                self._reject(some, ["the record names no topic"] * some.num_rows)
                continue
            codes = self._send(topic, some)
            bad = np.flatnonzero(codes)
            self.rows += some.num_rows - len(bad)
            if len(bad):
                self._refuse(topic, some, bad, codes[bad])

    def receipt(self) -> Receipt:
        """What was sent and what was refused."""
        return Receipt(rows=self.rows, rejected=tuple(self.rejected))

    def _by_topic(self, rows: pa.RecordBatch) -> list[tuple[str | None, pa.RecordBatch]]:
        if rows.num_rows == 0:
            return []
        if self.sink.topic_field is None:
            return [(self.sink.topic, rows)]
        named = rows.column(self.sink.topic_field)
        if self.sink.topic is not None:
            named = named.fill_null(self.sink.topic)
        found = []
        for name in named.unique():
            same = pc.equal(named, name) if name.is_valid else pc.is_null(named)
            found.append((name.as_py(), rows.filter(same)))
        return found

    def _send(self, topic: str, rows: pa.RecordBatch) -> np.ndarray:
        messages = np.zeros(rows.num_rows, to.MESSAGE)
        messages["partition"] = -1
        if self.sink.partition_field is not None:
            chosen = rows.column(self.sink.partition_field).fill_null(-1)
            messages["partition"] = chosen.to_numpy(zero_copy_only=False)
        elif self.sink.partitioner == "keep":
            came = column(rows, "stamp").field("part").cast(pa.int32()).fill_null(-1)
            messages["partition"] = came.to_numpy(zero_copy_only=False)
        # The arrays whose memory is pointed into live until librdkafka has copied from it.
        value = rows.column("value")
        messages["value"], messages["size"] = addresses(value)
        key = column(rows, self.sink.key_field)
        if key is not None and key.null_count < len(key):
            messages["key"], messages["key_size"] = addresses(key)
        millis, headers = self._millis(rows), column(rows, "headers")
        if headers is not None and headers.null_count == len(headers):
            headers = None
        if millis is None and headers is None:
            self.producer.send(topic, messages, self.sink.timeout)
            return messages["err"]
        handle = self.producer.topic(topic, self.sink.timeout)
        fields, counts, _kept = fields_of(handle, messages, millis, headers)
        return self.producer.send_each(fields, counts, self.sink.timeout)

    def _millis(self, rows: pa.RecordBatch) -> np.ndarray | None:
        moments = column(rows, "event_time")
        if self.sink.timestamps == "now" or moments is None or moments.null_count == len(moments):
            return None
        micros = moments.cast(pa.int64()).fill_null(0)
        return micros.to_numpy(zero_copy_only=False) // 1000

    def _refuse(self, topic: str, rows: pa.RecordBatch, bad: np.ndarray, codes: np.ndarray) -> None:
        worst = next((int(c) for c in codes if c not in _REFUSED_ALONE), None)
        if worst == KafkaError._UNKNOWN_PARTITION:
            raise WriteError(
                f"the topic {topic} does not have all the partitions that records name",
                who=WHO,
                fix="give it as many partitions as the topic it mirrors",
            )
        if worst is not None:
            raise failure(worst)
        reasons = [lib().err2str(int(code)).decode() for code in codes]
        self._reject(rows.take(pa.array(bad)), reasons)

    def _reject(self, rows: pa.RecordBatch, reasons: list[str]) -> None:
        self.rejected.append(Rejected(rows, reasons))


def addresses(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where each value of a binary array begins in memory, and its length; 0 for null."""
    _, edges, data = values.buffers()
    first = values.offset
    ends = np.frombuffer(edges, np.int32)[first : first + len(values) + 1].astype(np.int64)
    base = _NOWHERE.ctypes.data if data is None or not data.size else data.address
    starts, lengths = base + ends[:-1], np.diff(ends)
    if values.null_count:
        missing = values.is_null().to_numpy(zero_copy_only=False)
        starts[missing] = 0
        lengths[missing] = 0
    return starts, lengths


def fields_of(
    topic: int, messages: np.ndarray, millis: np.ndarray | None, headers: pa.Array | None
) -> tuple[np.ndarray, np.ndarray, object]:
    """Records with timestamps and headers, as `rd_kafka_produceva` takes them.

    Returns:
        All fields, how many belong to each record, and what must live until they are sent.
    """
    count = len(messages)
    many = np.zeros(count, np.int64)
    pairs = None
    if headers is not None:
        many = headers.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        pairs = headers.flatten()
    counts = many + _FIXED
    ends = np.cumsum(counts)
    fields = np.zeros(int(ends[-1]), to.FIELD)
    first = ends - counts
    _set(fields, first, to.RKT, topic)
    _set(fields, first + 1, to.PARTITION, messages["partition"])
    _set(fields, first + 2, to.VALUE, messages["value"], messages["size"])
    _set(fields, first + 3, to.KEY, messages["key"], messages["key_size"])
    _set(fields, first + 4, to.FLAGS, F_COPY)
    _set(fields, first + 5, to.TIMESTAMP, 0 if millis is None else millis)
    if pairs is None or not len(pairs):
        return fields, counts, None
    # Names end with a zero byte in C.
    ended = pc.binary_join_element_wise(pairs.field("key"), "", "\0")
    before = np.cumsum(many) - many
    where = np.repeat(first + _FIXED - before, many) + np.arange(len(pairs))
    names, _ = addresses(ended.cast(pa.binary()))
    starts, lengths = addresses(pairs.field("value"))
    _set(fields, where, to.HEADER, names, starts, lengths)
    return fields, counts, (ended, pairs)


def _set(fields: np.ndarray, where: np.ndarray, kind: int, *words: object) -> None:
    fields["kind"][where] = kind
    for name, word in zip(("first", "second", "third"), words, strict=False):
        fields[name][where] = word
