"""Coordinators that move, load and cannot be found, on a mock cluster."""

import threading
import uuid

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from penstock.conformance.waiting import until
from penstock.contracts import Batch, Context
from penstock.contracts.errors import EphemeralWriteError
from penstock_kafka import clients, patience
from penstock_kafka.producer import ColumnProducer
from penstock_kafka.sink import KafkaSink
from penstock_kafka.source import KafkaSource

from . import mockcluster
from .conftest import envelopes

MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)


@pytest.fixture
def cluster():
    made = mockcluster.MockCluster()
    made.create_topic("t", 2)
    yield made
    clients.close_all()
    made.close()


@pytest.fixture
def batch():
    ctx = Context(query=str(uuid.uuid4()), node="kafka")
    return lambda number: Batch(ctx, number, 1)


def write(sink, batch):
    sink.begin(batch)
    writer = sink.open(batch, 0, 0, sink.accepts(envelopes([b"a"]).schema))
    writer.write(envelopes([b"a"]))
    return writer.close()


@pytest.mark.parametrize(
    "name", ["OFFSET_FETCH", "OFFSET_COMMIT", "INIT_PRODUCER_ID", "ADD_OFFSETS", "END_TRANSACTION"]
)
def test_a_write_outlasts_a_coordinator_that_moves(cluster, batch, name):
    sink = KafkaSink(servers=cluster.address, topic="t", timeout=20)
    cluster.fail(getattr(mockcluster, name), *MOVING)
    assert write(sink, batch(0)).rows == 1


def test_a_coordinator_that_never_settles_fails_the_task_at_the_time_out(cluster, batch):
    sink = KafkaSink(servers=cluster.address, topic="t", timeout=1)
    cluster.fail(mockcluster.OFFSET_FETCH, *MOVING * 50)
    with pytest.raises(EphemeralWriteError, match="coordinator"):
        write(sink, batch(0))


def test_a_call_that_librdkafka_never_ends_is_given_up_and_freed_when_it_ends(
    cluster, batch, monkeypatch
):
    sink = KafkaSink(servers=cluster.address, topic="t", timeout=1)
    assert write(sink, batch(0)).rows == 1
    answer, freed = threading.Event(), []
    free = ColumnProducer._free
    monkeypatch.setattr(ColumnProducer, "_free", lambda self: (freed.append(self), free(self)))
    with monkeypatch.context() as stuck:
        stuck.setattr(ColumnProducer, "_send_offset", lambda *_: answer.wait(60) and None)
        with pytest.raises(EphemeralWriteError, match="does not answer"):
            write(sink, batch(1))
    assert freed == [], "freed while librdkafka is still in it"
    assert write(sink, batch(1)).rows == 1
    answer.set()
    until(lambda: len(freed) == 2, within=10, why="both that were given up are freed")


def test_an_error_that_does_not_pass_is_not_waited_for(cluster, batch, monkeypatch):
    monkeypatch.setattr(patience.time, "sleep", lambda _: pytest.fail("waited"))
    sink = KafkaSink(servers=cluster.address, topic="t")
    cluster.fail(mockcluster.OFFSET_FETCH, KafkaError.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(Exception, match=r"(?i)group authorization"):
        write(sink, batch(0))


def test_the_group_moves_with_the_last_batch_though_its_coordinator_moves_too(cluster):
    source = KafkaSource(servers=cluster.address, topics=["t"], group="g")
    planner = source.planner(Context(node="k"))
    cluster.fail(mockcluster.OFFSET_COMMIT, *MOVING)
    planner.durable({"topics": {"t": {"id": None, "at": {"0": 7, "1": 9}}}})
    planner.close()
    reader = Consumer({"bootstrap.servers": cluster.address, "group.id": "g"})
    found = reader.committed([TopicPartition("t", p) for p in (0, 1)], timeout=10)
    reader.close()
    assert [place.offset for place in found] == [7, 9]
