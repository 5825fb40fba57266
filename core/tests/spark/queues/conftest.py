"""A little broker, and a stand-in for Spark."""

import base64

import pytest

from penstock.conformance.reference.client import Link
from penstock.conformance.reference.process import BrokerProcess
from penstock.conformance.reference.socket_source import SocketSource

from .stand_in import Query


class Broker(BrokerProcess):
    def send(self, *ids, value=b"payload of "):
        link = Link("127.0.0.1", self.port, None)
        bodies = [base64.b64encode(value + name.encode()).decode() for name in ids]
        link.ask("send", messages=[{"id": i, "value": b} for i, b in zip(ids, bodies, strict=True)])
        link.close()

    def depth(self):
        link = Link("127.0.0.1", self.port, None)
        try:
            return link.ask("depth")["count"]
        finally:
            link.close()


@pytest.fixture
def broker(tmp_path):
    folder = tmp_path / "broker"
    folder.mkdir()
    with Broker(folder) as running:
        yield running


@pytest.fixture
def query(broker, tmp_path):
    made = []

    def make(**options):
        source = options.pop("source", None) or SocketSource(port=broker.port)
        made.append(Query(source, tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()
