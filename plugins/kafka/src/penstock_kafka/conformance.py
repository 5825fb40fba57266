"""The conformance suite of kafka: `penstock conformance kafka --server HOST:PORT`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.conformance import Case, ConnectorSuite, Record, Server
from penstock.contracts.secret import resolve
from penstock_kafka import clients, connector

PARTITIONS = 3
PASSWORD = "kafka.sasl.password"


class TestKafka(ConnectorSuite):
    connector = "kafka"
    server = "its bootstrap servers, such as localhost:9092; topics are made there and removed"

    @pytest.fixture
    def case(self, penstock_server: Server) -> Iterator[Case]:
        address, untried = penstock_server.address, penstock_server.untried
        if PASSWORD not in penstock_server.options:
            untried["wrong_credentials"] = f"the server was named without {PASSWORD}"
        settings = _settings(penstock_server)
        topic = f"conformance-{uuid.uuid4().hex[:12]}"
        # Records of the suite are from years ago, and Kafka deletes by their time.
        wanted = NewTopic(topic, PARTITIONS, -1, config={"retention.ms": "-1"})
        admin = AdminClient(settings)
        admin.create_topics([wanted], operation_timeout=20)[topic].result(timeout=30)
        source, sink = penstock_server.options_of(connector)
        # A server that is away for good is waited for several times.
        place = {"servers": address, "timeout": 15}
        yield Case(
            source={**place, "group_rows": 10, **source, "topics": topic},
            sink={**place, **sink, "topic": topic},
            seed=_Seed(settings, topic),
            server=penstock_server.breakable,
            proof=penstock_server.proof,
            untried=untried,
            wrong_credentials={PASSWORD: "wrong-canary"},
            contradictory={"topics": topic, "pattern": "x.*"},
        )
        clients.close_all()
        admin.delete_topics([topic], operation_timeout=20)[topic].result(timeout=30)


class _Seed:
    """Writes records as any producer would: no Penstock involved."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._producer = Producer(settings)
        self._topic = topic

    def __call__(self, records: Sequence[Record], split: int) -> None:
        for record in records:
            self._producer.produce(
                self._topic,
                record.value,
                record.key,
                partition=split,
                headers=list(record.headers),
                timestamp=round(record.event_time.timestamp() * 1000),
            )
            self._producer.poll(0)
        left = self._producer.flush(30)
        if left:
            raise AssertionError(f"{left} records could not be written within 30 s")


def _settings(server: Server) -> dict[str, Any]:
    """What librdkafka needs to get in."""
    passed = {
        name.removeprefix("kafka."): resolve(value)
        for name, value in server.options.items()
        if name.startswith("kafka.")
    }
    return {**passed, "bootstrap.servers": server.address, "log_level": 0}
