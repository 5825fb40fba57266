import uuid
from collections.abc import Iterator
from types import SimpleNamespace

import pyarrow as pa
import pytest

from penstock.conformance.killed import KilledClauses
from penstock.conformance.through_spark import SparkClauses
from penstock.contracts import Batch, Consumer, Context, Lease, Limit, Receipt
from penstock.contracts.envelope import ENVELOPE, conform
from penstock.contracts.options import parse
from penstock_jms.client import Client
from penstock_jms.sink import JmsSink
from penstock_jms.source import JmsSource
from tests.brokers import jars

JAKARTA = ("org.apache.activemq:artemis-jakarta-client-all:2.42.0",)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Clauses that start Spark take minutes beside a broker: they belong to the full run."""
    heavy = {*vars(KilledClauses), *vars(SparkClauses)}
    for item in items:
        cls = getattr(item, "cls", None)
        if cls is not None and getattr(cls, "connector", None) == "jms" and item.name in heavy:
            item.add_marker(pytest.mark.slow)


class Place:
    """A fresh queue of a broker, and what a test does with it."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = {**options, "queue": f"q-{uuid.uuid4().hex[:12]}"}

    def source(self, **changed) -> JmsSource:
        return parse(JmsSource, {**self.options, **changed})

    def sink(self, **changed) -> JmsSink:
        return parse(JmsSink, {**self.options, **changed})

    def consumer(self, **changed) -> Consumer:
        return self.source(**changed).consumer(Context(), 0)

    def write(self, rows: list[dict], number: int = 0, query: str = "q", **changed) -> Receipt:
        return self.write_batch(envelopes(rows), number, query, **changed)

    def write_batch(self, given: pa.RecordBatch, number=0, query="q", **changed) -> Receipt:
        sink = self.sink(**changed)
        schema = sink.accepts(given.schema)
        writer = sink.open(Batch(Context(query=query), number), 0, 0, schema)
        writer.write(conform(given, schema))
        return writer.close()

    def lease(self, consumer: Consumer, rows: int | None = None, wait: float = 10) -> Lease:
        lease = consumer.receive(Limit(rows=rows), wait)
        assert lease is not None, "nothing came"
        return lease

    def take(self, **changed) -> list[dict]:
        """All that is there, acknowledged."""
        consumer = self.consumer(**changed)
        out: list[dict] = []
        try:
            while (lease := consumer.receive(Limit(), 0.5)) is not None:
                out += lease.rows.to_pylist()
                lease.acknowledge()
        finally:
            consumer.close()
        return out


def envelopes(rows: list[dict]) -> pa.RecordBatch:
    """Envelope rows; headers may be given as a mapping."""
    full = []
    for row in rows:
        headers = row.get("headers")
        if isinstance(headers, dict):
            headers = [{"key": name, "value": value} for name, value in headers.items()]
        full.append({**dict.fromkeys(ENVELOPE.names), **row, "headers": headers})
    return pa.RecordBatch.from_pylist(full, schema=ENVELOPE)


def headers(row: dict) -> dict[str, bytes]:
    return {header["key"]: header["value"] for header in row["headers"]}


@pytest.fixture(scope="session")
def connecting(artemis) -> dict[str, str]:
    """Options that reach Artemis through its javax client."""
    return {
        "jars": ",".join(map(str, artemis.client_jars)),
        "url": artemis.url,
        "user": artemis.user,
        "password": artemis.password,
    }


@pytest.fixture
def place(connecting) -> Place:
    return Place(connecting)


@pytest.fixture
def jakarta(connecting) -> Place:
    """The same broker through the Jakarta client."""
    return Place({**connecting, "jars": ",".join(map(str, jars.fetch(JAKARTA)))})


@pytest.fixture
def raw(place) -> Iterator[SimpleNamespace]:
    """A plain JMS session on the place's queue, for messages our own sink never sends."""
    client = Client(place.source(), transacted=False)
    producer = client.session.createProducer(client.destination)
    yield SimpleNamespace(client=client, session=client.session, send=producer.send)
    client.close()
