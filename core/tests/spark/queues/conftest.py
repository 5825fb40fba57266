"""A little broker, and a stand-in for Spark that keeps a checkpoint as Spark does."""

import base64
import json

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from penstock.conformance.reference.client import Link
from penstock.conformance.reference.process import BrokerProcess
from penstock.conformance.reference.socket_source import SocketSource
from penstock.contracts import ENVELOPE, Context
from penstock.contracts.delivery import QueueOptions
from penstock.spark.queues import stream_reader


class Plain:
    schema = ENVELOPE

    def apply(self, rows):
        return rows


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


class Query:
    """What Spark does to a stream reader, call by call, with the log entries in between."""

    def __init__(self, source, folder, **options):
        self.checkpoint = folder / "checkpoint"
        options.setdefault("checkpoint", str(self.checkpoint))
        self.options = QueueOptions(**options)
        self.source = source
        for name in ("offsets", "commits"):
            (self.checkpoint / name).mkdir(parents=True, exist_ok=True)
        self.begin()

    def begin(self):
        """A new reader process, as after a restart."""
        self.reader = stream_reader(self.source, self.options, Context(node="in"), Plain())
        logged = sorted(int(p.name) for p in (self.checkpoint / "offsets").iterdir())
        self.batch = logged[-1] if logged else -1
        self.at = self.logged(self.batch) if logged else self.reader.initialOffset()
        return self

    def logged(self, batch):
        if batch < 0:
            return self.reader.initialOffset()
        return json.loads((self.checkpoint / "offsets" / str(batch)).read_text().split("\n")[2])

    def plan(self):
        """Ask for the next batch and log it; False if there is nothing new."""
        end = self.reader.latestOffset(self.at, ReadMaxRows(self.options.max_rows))
        if end == self.at:
            return False
        self.batch += 1
        entry = self.checkpoint / "offsets" / str(self.batch)
        entry.write_text(f"v1\n{{}}\n{json.dumps(end)}")
        self.start, self.at = self.at, end
        return True

    def rows(self):
        """Run the planned batch: the ids it holds."""
        parts = self.reader.partitions(self.start, self.at)
        batches = [rows for part in parts for rows in self.reader.read(part)]
        return [name for rows in batches for name in rows.column("id").to_pylist()]

    def commit(self):
        (self.checkpoint / "commits" / str(self.batch)).write_text("v1\n{}")

    def stop(self):
        self.reader.stop()


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
