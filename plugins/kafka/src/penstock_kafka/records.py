"""Arrow rows as Kafka records."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.contracts import Receipt, Rejected
from penstock.contracts.envelope import column
from penstock.contracts.errors import EphemeralWriteError, WriteError
from penstock_kafka.faults import kafka_error
from penstock_kafka.sink import KafkaSink
from penstock_kafka.who import WHO

_REFUSED_ALONE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._INVALID_ARG}
_FULL_WAIT = 0.1


class Sender:
    """Hands rows to a producer, which sends them in the background."""

    def __init__(self, sink: KafkaSink, producer: Producer) -> None:
        self.sink = sink
        self.producer = producer
        self.rows = 0
        self.rejected: list[Rejected] = []

    def send(self, rows: pa.RecordBatch) -> None:
        """Queue rows; waits while the producer's queue is full.

        Raises:
            KafkaException: the producer cannot go on.
        """
        refused: list[int] = []
        reasons: list[str] = []
        for index, record in enumerate(zip(*self._columns(rows), strict=True)):
            reason = self._produce(record)
            if reason is None:
                self.rows += 1
            else:
                refused.append(index)
                reasons.append(reason)
        if refused:
            self.rejected.append(Rejected(rows.take(pa.array(refused)), reasons))
        self.producer.poll(0)

    def receipt(self) -> Receipt:
        """What was sent and what was refused."""
        return Receipt(rows=self.rows, rejected=tuple(self.rejected))

    def _columns(self, rows: pa.RecordBatch) -> list[list]:
        count = rows.num_rows
        nothing = [None] * count
        sink = self.sink
        topics = [sink.topic] * count
        if sink.topic_field is not None:
            named = rows.column(sink.topic_field).to_pylist()
            topics = [sink.topic if name is None else name for name in named]
        partitions = nothing
        if sink.partition_field is not None:
            partitions = rows.column(sink.partition_field).to_pylist()
        key = column(rows, sink.key_field)
        headers = column(rows, "headers")
        return [
            topics,
            partitions,
            nothing if key is None else key.to_pylist(),
            rows.column("value").to_pylist(),
            nothing if headers is None or headers.null_count == count else headers.to_pylist(),
            self._millis(rows),
        ]

    def _millis(self, rows: pa.RecordBatch) -> list:
        moments = column(rows, "event_time")
        if moments is None or self.sink.timestamps == "now":
            return [0] * rows.num_rows
        millis = pc.divide(moments.cast(pa.int64()), 1000)
        return [0 if m is None else m for m in millis.to_pylist()]

    def _produce(self, record: tuple) -> str | None:
        topic, partition, key, value, headers, millis = record
        if topic is None:
            return "the record names no topic"
        extra = {} if partition is None else {"partition": partition}
        if headers:
            extra["headers"] = [(h["key"], h["value"]) for h in headers]
        waits = 0
        while True:
            try:
                self.producer.produce(topic, value, key, timestamp=millis, **extra)
                return None
            except BufferError:
                waits += 1
                if waits * _FULL_WAIT > self.sink.timeout:
                    raise EphemeralWriteError(
                        f"the producer's queue stayed full for {self.sink.timeout:g} s",
                        who=WHO,
                        fix="see that the brokers run and can be reached; it is tried again",
                    ) from None
                self.producer.poll(_FULL_WAIT)
            except KafkaException as error:
                found = kafka_error(error)
                if found.code() in _REFUSED_ALONE:
                    return found.str()
                if found.code() == KafkaError._UNKNOWN_PARTITION:
                    raise WriteError(
                        f"the topic {topic} has no partition {partition}",
                        who=WHO,
                        fix="give the topic as many partitions as the one it mirrors",
                    ) from None
                raise
