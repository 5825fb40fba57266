"""The servers as pytest fixtures: one of each for the session, and fresh ones that a test may kill.

A server that this machine lacks skips the test and says how to get it. With CI=true or
PENSTOCK_REQUIRE_SERVERS=1 it fails the test instead.
"""

import os
from collections.abc import Iterator

import pytest

from tests.brokers.artemis import Artemis
from tests.brokers.kafka import Kafka
from tests.brokers.objectstore import ObjectStore
from tests.brokers.openssh import OpenSSH
from tests.brokers.rabbitmq import RabbitMQ
from tests.brokers.server import Missing, Server


def required() -> bool:
    wanted = (os.environ.get("CI", ""), os.environ.get("PENSTOCK_REQUIRE_SERVERS", ""))
    return any(value.lower() in ("1", "true", "yes") for value in wanted)


def running(server: Server) -> Iterator[Server]:
    """Start a server for a fixture of one's own (`yield from running(Kafka(tls=...))`), then end it."""
    try:
        server.start()
    except Missing as missing:
        server.stop()
        if required():
            pytest.fail(f"{missing} (servers are required here)", pytrace=False)
        pytest.skip(str(missing))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    yield from running(Kafka())


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    yield from running(RabbitMQ())


@pytest.fixture(scope="session")
def artemis() -> Iterator[Artemis]:
    yield from running(Artemis())


@pytest.fixture(scope="session")
def sshd() -> Iterator[OpenSSH]:
    yield from running(OpenSSH())


@pytest.fixture(scope="session")
def objectstore() -> Iterator[ObjectStore]:
    yield from running(ObjectStore())


@pytest.fixture
def fresh_kafka() -> Iterator[Kafka]:
    yield from running(Kafka())


@pytest.fixture
def fresh_rabbitmq() -> Iterator[RabbitMQ]:
    yield from running(RabbitMQ())


@pytest.fixture
def fresh_artemis() -> Iterator[Artemis]:
    yield from running(Artemis())


@pytest.fixture
def fresh_sshd() -> Iterator[OpenSSH]:
    yield from running(OpenSSH())
