"""The conformance suite of amqp: `penstock conformance amqp --server amqp://...`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock.conformance import Case, ConnectorSuite, Server
from penstock.contracts import Secret
from penstock.contracts.options import parse
from penstock_amqp import connector
from penstock_amqp.address import Address
from penstock_amqp.link import parameters
from penstock_amqp.source import AmqpSource


class TestAmqp(ConnectorSuite):
    connector = "amqp"
    server = (
        "an AMQP URL, such as amqp://guest:guest@localhost:5672/; queues and exchanges are made "
        "there and removed"
    )

    @pytest.fixture
    def case(self, penstock_server: Server) -> Iterator[Case]:
        [at] = Address(url=Secret(penstock_server.address), plaintext=True).endpoints()
        parts = {
            "hosts": f"{at.host}:{at.port}",
            "vhost": at.vhost,
            "user": at.user,
            "password": at.password,
            "tls": at.tls,
        }
        source, sink = penstock_server.options_of(connector)
        place = Place({**parts, **source})
        place.make()
        yield Case(
            source=place.options,
            # A broker that is away for good is looked for this long, several times.
            sink={**parts, "retry_for": 15, **sink, "exchange": place.exchange},
            read_back=place.peek,
            server=penstock_server.breakable,
            proof=penstock_server.proof,
            untried=penstock_server.untried,
            wrong_credentials={"password": "wrong-canary"},
            contradictory={"url": "amqp://localhost/"},
        )
        place.remove()


class Place:
    """A queue and a fanout exchange bound to it, seen through a plain client."""

    def __init__(self, options: dict[str, object]) -> None:
        self.queue = f"conformance-{uuid.uuid4().hex[:12]}"
        self.exchange = f"x-{self.queue}"
        self.options = {**options, "queue": self.queue}

    @contextmanager
    def channel(self) -> Iterator[BlockingChannel]:
        address = parse(AmqpSource, self.options)
        at = parameters(address, address.endpoints()[0], "conformance")
        connection = pika.BlockingConnection(at)
        try:
            yield connection.channel()
        finally:
            if connection.is_open:
                connection.close()

    def make(self) -> None:
        with self.channel() as channel:
            channel.queue_declare(self.queue, durable=True)
            channel.exchange_declare(self.exchange, "fanout", durable=True)
            channel.queue_bind(self.queue, self.exchange)

    def remove(self) -> None:
        with self.channel() as channel:
            channel.exchange_delete(self.exchange)
            channel.queue_delete(self.queue)

    def peek(self) -> list[bytes]:
        """The bodies of all messages in the queue; they stay there."""
        found: list[bytes] = []
        with self.channel() as channel:
            last = 0
            while (got := channel.basic_get(self.queue))[0] is not None:
                last = got[0].delivery_tag
                found.append(got[2])
            if found:
                channel.basic_nack(last, multiple=True, requeue=True)
                channel.queue_declare(self.queue, passive=True)  # after the nack has arrived
        return found
