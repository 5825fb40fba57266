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
from penstock_kafka.librdkafka import F_COPY, failure
from penstock_kafka.refusals import Rule, sort_out
from penstock_kafka.sink import KafkaSink
from penstock_kafka.who import WHO

_FIXED = 6
"""Fields of a record beside its headers."""
_NOWHERE = np.zeros(1, np.int64)
"""What an empty value points to: librdkafka takes a null address for a null."""


class Sender:
    """Hands rows to a producer, which sends them in the background."""

    def __init__(self, sink: KafkaSink, producer: to.ColumnProducer) -> None:
        self.sink = sink
        self.producer = producer
        self.rule = Rule.of(sink)
        self.rows = 0
        self.rejected: list[Rejected] = []

    def send(self, rows: pa.RecordBatch) -> None:
        """Queue rows; waits while the producer's queue is full.

        Raises:
            KafkaException: the producer cannot go on.
            WriteError: a record names a partition that its topic does not have.
        """
        good, refused = sort_out(self.sink, self.rule, rows)
        self.rejected += refused
        for topic, some in good:
            if some.num_rows:
                self._check(topic, self._send(topic, some))
                self.rows += some.num_rows

    def receipt(self) -> Receipt:
        """What was sent and what was refused."""
        return Receipt(rows=self.rows, rejected=tuple(self.rejected))

    def _send(self, topic: str, rows: pa.RecordBatch) -> np.ndarray:
        messages = np.zeros(rows.num_rows, to.MESSAGE)
        messages["partition"] = -1
        if self.sink.partition_field is not None:
            chosen = rows.column(self.sink.partition_field).fill_null(-1)
            messages["partition"] = chosen.to_numpy(zero_copy_only=False)
        elif self.sink.partitioner == "keep":
            messages["partition"] = _came_from(rows)
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

    def _check(self, topic: str, codes: np.ndarray) -> None:
        bad = codes[codes != 0]
        if (bad == KafkaError._UNKNOWN_PARTITION).any():
            raise WriteError(
                f"the topic {topic} does not have all the partitions that records name",
                who=WHO,
                fix="give it as many partitions as the topic it mirrors",
            )
        if len(bad):
            raise failure(int(bad[0]))


def _came_from(rows: pa.RecordBatch) -> np.ndarray:
    parts = column(rows, "stamp").field("part")
    try:
        return parts.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise WriteError(
            "the rows do not come from partitions of Kafka",
            who=WHO,
            expected="a number in stamp.part",
            got=str(error),
            fix="drop partitioner=keep",
        ) from None


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
