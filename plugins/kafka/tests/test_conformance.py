"""The suite, against a real Kafka that it may kill, over TLS and SASL."""

import uuid

import pytest
from confluent_kafka import Producer

from penstock.conformance import Case, ConnectorSuite
from tests.brokers.certificates import Authority
from tests.brokers.fixtures import running
from tests.brokers.kafka import Kafka

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    yield from running(Kafka(tls=Authority(tmp_path_factory.mktemp("certificates"))))


class TestKafka(ConnectorSuite):
    connector = "kafka"

    @pytest.fixture
    def case(self, broker):
        topic = broker.create_topic(f"conformance-{uuid.uuid4().hex[:12]}", 3)
        producer = Producer({"bootstrap.servers": broker.address})

        def seed(records, split):
            for record in records:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition=split,
                    headers=list(record.headers),
                    timestamp=round(record.event_time.timestamp() * 1000),
                )
                producer.poll(0)
            assert producer.flush(30) == 0

        place = {
            "servers": broker.sasl_address,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": broker.user,
            "kafka.sasl.password": broker.password,
            "kafka.ssl.ca.location": str(broker.tls.ca),
            # A server that is away for good is waited for several times.
            "timeout": 15,
        }
        return Case(
            source={**place, "topics": topic, "group_rows": 10},
            sink={**place, "topic": topic},
            seed=seed,
            server=broker,
            proof="real server",
            wrong_credentials={"kafka.sasl.password": "wrong-canary"},
            contradictory={"topics": topic, "pattern": "x.*"},
        )
