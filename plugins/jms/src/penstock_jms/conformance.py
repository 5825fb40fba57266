"""The conformance suite of jms: `penstock conformance jms --server tcp://... --option jars=...`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from penstock.conformance import Case, ConnectorSuite, Server
from penstock.contracts import Context, Limit
from penstock.contracts.options import parse
from penstock_jms import connector
from penstock_jms.client import Client
from penstock_jms.columns import Pass
from penstock_jms.handles import handles
from penstock_jms.reading import Reading, received
from penstock_jms.source import JmsSource


class TestJms(ConnectorSuite):
    connector = "jms"
    server = (
        "the URL of its client library, such as tcp://localhost:61616, with --option jars=... and "
        "where needed user and password; a broker that makes queues when they are first used"
    )

    @pytest.fixture
    def case(self, penstock_server: Server) -> Iterator[Case]:
        untried = penstock_server.untried
        if "password" not in penstock_server.options:
            untried["wrong_credentials"] = "the server was named without a password"
        source, sink = penstock_server.options_of(connector)
        detection = {"duplicate_detection": "artemis", **sink}
        if detection["duplicate_detection"] == "none":
            untried["exactly-once"] = "duplicate_detection=none: no broker finds duplicates"
        place = {
            "url": penstock_server.address,
            "queue": f"conformance-{uuid.uuid4().hex}",
            "event_time_property": "sent_at",
        }
        yield Case(
            source={**source, **place},
            sink={**detection, **place},
            read_back=lambda: _browsed({**source, **place}),
            server=penstock_server.breakable,
            proof=penstock_server.proof,
            untried=untried,
            wrong_credentials={"password": "wrong-canary"},
            contradictory={"topic": "t"},
        )
        if penstock_server.breakable is None:
            _emptied({**source, **place})


def _browsed(place: Mapping[str, Any]) -> list[bytes]:
    """What waits in the queue. Receiving it only to look would count as a delivery each time."""
    client = Client(parse(JmsSource, place), transacted=False)
    try:
        client.begin()
        browser = client.session.createBrowser(client.destination)
        messages = client.java("java.util.Collections").list(browser.getEnumeration())
        if messages.isEmpty():
            return []
        use = handles(client.loader, client.namespace)
        found = received(use, Pass(use).read(messages), Reading("browsed", ""), 0)
        values: list[bytes] = found.rows.column("value").to_pylist()
        return values
    finally:
        client.close()


def _emptied(place: Mapping[str, Any]) -> None:
    """Leave nothing in a queue of somebody else's broker; JMS cannot remove the queue itself."""
    consumer = parse(JmsSource, place).consumer(Context(), 0)
    try:
        while (lease := consumer.receive(Limit(), 0.5)) is not None:
            lease.acknowledge()
    finally:
        consumer.close()
