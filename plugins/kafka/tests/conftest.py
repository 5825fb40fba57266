"""What the tests of this connector share: topics of their own, plain clients as witnesses."""

import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from penstock.contracts import ENVELOPE
from penstock_kafka import clients


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The suite over TLS and SASL restarts its broker often: it belongs to the full run."""
    for item in items:
        if getattr(getattr(item, "cls", None), "__name__", "") == "TestKafka":
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def new_topic(kafka) -> Callable[..., str]:
    def make(partitions: int = 1, **config: str) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        return kafka.create_topic(name, partitions, **config)

    return make


@pytest.fixture(autouse=True)
def no_client_outlives_its_test() -> Iterator[None]:
    yield
    clients.close_all()


@pytest.fixture
def produce(kafka) -> Iterator[Callable[..., None]]:
    """Writes records as any producer would: no Penstock involved."""
    producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 5})

    def send(topic: str, values, *, partition: int | None = None, **fields) -> None:
        extra = {} if partition is None else {"partition": partition}
        for value in values:
            producer.produce(topic, value, **extra, **fields)
            producer.poll(0)
        assert producer.flush(20) == 0

    yield send
    producer.flush(1)


def witness(address: str, topic: str, isolation: str = "read_committed") -> list:
    """Every message of a topic as an independent consumer sees it, to the end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"witness-{uuid.uuid4().hex}",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        count = len(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, p, 0) for p in range(count)])
        found, ended = [], set()
        while len(ended) < count:
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise AssertionError(error)
        return found
    finally:
        consumer.close()


def envelopes(values, *, keys=None, headers=None, moments=None) -> pa.RecordBatch:
    """Rows of the envelope."""
    values = list(values)
    nulls = [None] * len(values)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(nulls if keys is None else keys, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array(nulls if headers is None else headers, ENVELOPE.field("headers").type),
            pa.array(nulls if moments is None else moments, ENVELOPE.field("event_time").type),
            pa.array(nulls, pa.string()),
            pa.nulls(len(values), ENVELOPE.field("stamp").type),
        ],
        schema=ENVELOPE,
    )
