"""The worker's side of the sink: an idempotent producer, or a transaction per task and batch."""

from __future__ import annotations

import time

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from penstock.contracts import Batch, Receipt, Writer
from penstock.contracts.errors import EphemeralWriteError, WriteError
from penstock_kafka import clients
from penstock_kafka.faults import kafka_error, refused, settings_fault, write_fault
from penstock_kafka.producer import ColumnProducer
from penstock_kafka.records import Sender
from penstock_kafka.settings import revealed
from penstock_kafka.sink import KafkaSink
from penstock_kafka.who import WHO

TUNED = {
    "linger.ms": "5",
    "batch.size": "1000000",
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "262144",
}
SECONDS_TO_CHECK = 10.0


def settings(sink: KafkaSink) -> dict[str, str]:
    """What a writing client is made from."""
    return {
        **TUNED,
        **revealed(sink.kafka),
        "bootstrap.servers": sink.servers,
        "client.id": sink.client_id,
        "partitioner": "murmur2_random" if sink.partitioner == "keep" else sink.partitioner,
        "compression.type": sink.compression,
        "enable.idempotence": "true",
    }


def open_writer(sink: KafkaSink, batch: Batch, partition: int, schema: pa.Schema) -> Writer:
    """The writer that keeps the sink's promise."""
    if sink.delivery == "exactly-once":
        from penstock_kafka.transactions import open_transaction

        return open_transaction(sink, batch, partition)
    return AppendWriter(sink)


class AppendWriter(Writer):
    """At least once: what was given is written when `close` returns."""

    def __init__(self, sink: KafkaSink) -> None:
        self.sink = sink
        self.over = False
        made = settings(sink)
        self.key = ("producer", tuple(sorted(made.items())))
        self.producer: ColumnProducer = clients.borrow(self.key, lambda: ColumnProducer(made))
        self.producer.failed = None
        self.sender = Sender(sink, self.producer)

    def write(self, rows: pa.RecordBatch) -> None:
        try:
            self.sender.send(rows)
        except KafkaException as error:
            raise write_fault("writing", error) from None

    def close(self) -> Receipt:
        sent = self.producer.flush(self.sink.timeout)
        if self.producer.failed is not None:
            raise write_fault("writing", self.producer.failed)
        if not sent:
            raise EphemeralWriteError(
                f"not all records were acknowledged within {self.sink.timeout:g} s",
                who=WHO,
                fix="see that the brokers run and can be reached from here; it is tried again",
            )
        self.over = True
        clients.hand_back(self.key, self.producer)
        return self.sender.receipt()

    def abort(self) -> None:
        if not self.over:
            self.over = True
            self.producer.close()


def check(sink: KafkaSink) -> None:
    """See that the brokers answer and the topic is there."""
    heard: list[KafkaError] = []
    made = {**settings(sink), "error_cb": heard.append}
    for name in ("partitioner", "compression.type", "enable.idempotence", *TUNED):
        del made[name]
    try:
        admin = AdminClient(made)
    except KafkaException as error:
        raise settings_fault(error) from None
    deadline = time.monotonic() + SECONDS_TO_CHECK
    names = [] if sink.topic is None else [sink.topic]
    while True:
        try:
            admin.list_topics(timeout=2)
            for future in admin.describe_topics(TopicCollection(names)).values() if names else ():
                future.result(2)
            return
        except KafkaException as error:
            lost = kafka_error(error)
        except TimeoutError:
            lost = KafkaError(KafkaError._TIMED_OUT)
        if lost.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise WriteError(
                f"the topic {sink.topic} does not exist",
                who=WHO,
                fix="create the topic, or correct the option topic",
            )
        admin.poll(0)  # it tells its errors only to those who ask
        wrong = next(filter(refused, heard), None)
        if wrong is not None or time.monotonic() > deadline:
            raise write_fault("reaching the brokers", wrong or lost)
