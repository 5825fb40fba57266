"""Reading on a mock cluster: merged topics, brokers that err and go away."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, Producer

from penstock.contracts.errors import DataLossError, EphemeralReadError
from penstock_kafka import clients
from penstock_kafka.cluster import Cluster
from penstock_kafka.positions import KafkaPart, Range
from penstock_kafka.source import KafkaSource

from . import mockcluster


@pytest.fixture
def cluster():
    made = mockcluster.MockCluster()
    yield made
    clients.close_all()
    made.close()


@pytest.fixture
def fill(cluster):
    def send(topic, partition, times):
        producer = Producer({"bootstrap.servers": cluster.address})
        for number, time in enumerate(times):
            value = f"{topic}-{partition}-{number}"
            producer.produce(topic, value, partition=partition, timestamp=time)
        assert producer.flush(20) == 0

    return send


def read(source, part):
    return pa.Table.from_batches(list(source.read(part)), source.schema())


def test_topics_are_merged_by_event_time_and_each_keeps_its_order(cluster, fill):
    shares = {"a": [10, 30, 20, 60], "b": [20, 40, 50], "c": [5] * 3}
    for topic, times in shares.items():
        fill(cluster.create_topic(topic), 0, times)
    source = KafkaSource(servers=cluster.address, topics=list(shares), order="event_time")
    part = KafkaPart(tuple(Range(t, 0, 0, len(times)) for t, times in shares.items()))
    found = read(source, part)["value"].to_pylist()
    wanted = "c-0-0 c-0-1 c-0-2 a-0-0 b-0-0 a-0-1 a-0-2 b-0-1 b-0-2 a-0-3"
    assert [value.decode() for value in found] == wanted.split()


def test_a_partition_far_ahead_rests_until_the_others_come_near(cluster, fill, monkeypatch):
    from penstock_kafka import consumer

    removed = []
    remove = consumer.RunConsumer.remove
    monkeypatch.setattr(
        consumer.RunConsumer,
        "remove",
        lambda self, *place: (removed.append(place), remove(self, *place)),
    )
    fill(cluster.create_topic("a"), 0, range(2000, 4000))
    fill(cluster.create_topic("b"), 0, [*range(1, 1500), *range(3000, 5000)])
    source = KafkaSource(
        servers=cluster.address, topics=["a", "b"], order="event_time", batch_rows=50
    )
    found = read(source, KafkaPart((Range("a", 0, 0, 2000), Range("b", 0, 0, 3499))))
    moments = found["event_time"].cast(pa.int64()).to_pylist()
    assert moments == sorted(moments)
    assert len(moments) == 5499
    assert ("a", 0) in removed


@pytest.mark.parametrize(
    "error",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
    ],
)
def test_the_ends_of_partitions_outlast_leaders_that_move(cluster, fill, error):
    fill(cluster.create_topic("t", 2), 1, range(1, 8))
    asked = Cluster(KafkaSource(servers=cluster.address, topics=["t"]))
    cluster.fail(mockcluster.LIST_OFFSETS, *[error] * 3)
    assert asked.ends([("t", 0), ("t", 1)]) == {("t", 0): 0, ("t", 1): 7}
    asked.close()


def test_a_client_that_knows_an_old_leader_is_replaced(cluster, fill):
    fill(cluster.create_topic("t"), 0, [1, 2])
    asked = Cluster(KafkaSource(servers=cluster.address, topics=["t"]))
    first = asked._admin
    cluster.fail(mockcluster.LIST_OFFSETS, KafkaError.FENCED_LEADER_EPOCH)
    assert asked.ends([("t", 0)]) == {("t", 0): 2}
    assert asked._admin is not first
    asked.close()


def test_an_end_that_is_not_known_yet_is_asked_for_again(cluster, fill, monkeypatch):
    fill(cluster.create_topic("t"), 0, range(1, 8))
    asked = Cluster(KafkaSource(servers=cluster.address, topics=["t"]))
    real, unknown = asked._done, [SimpleNamespace(offset=OFFSET_INVALID)]

    def done(futures):
        found = real(futures)
        return dict.fromkeys(found, unknown.pop()) if unknown else found

    monkeypatch.setattr(asked, "_done", done)
    assert asked.ends([("t", 0)]) == {("t", 0): 7}
    assert not unknown
    asked.close()


def test_a_silent_cluster_is_an_ephemeral_error_at_the_time_out(cluster):
    cluster.create_topic("t")
    asked = Cluster(KafkaSource(servers=cluster.address, topics=["t"], timeout=0.5))
    cluster.down()
    with pytest.raises(EphemeralReadError):
        asked.ends([("t", 0)])
    asked.close()


def test_a_read_goes_on_when_the_broker_is_back(cluster, fill):
    fill(cluster.create_topic("t"), 0, range(1, 2001))
    source = KafkaSource(servers=cluster.address, topics=["t"], batch_rows=100)
    batches = source.read(KafkaPart((Range("t", 0, 0, 2000),)))
    first = next(batches)
    cluster.down()
    cluster.fail(mockcluster.FETCH, KafkaError.NOT_LEADER_FOR_PARTITION)
    cluster.up()
    assert first.num_rows + sum(rows.num_rows for rows in batches) == 2000


def test_a_read_that_hears_nothing_is_an_ephemeral_error(cluster, fill):
    fill(cluster.create_topic("t"), 0, [1])
    source = KafkaSource(servers=cluster.address, topics=["t"], timeout=0.5)
    with pytest.raises(EphemeralReadError, match="t-0"):
        list(source.read(KafkaPart((Range("t", 0, 0, 2),))))


def test_records_deleted_before_they_were_read_are_named(cluster, fill):
    fill(cluster.create_topic("t"), 0, [1])
    source = KafkaSource(servers=cluster.address, topics=["t"], timeout=5)
    with pytest.raises(DataLossError):
        list(source.read(KafkaPart((Range("t", 0, 7, 9),))))


def test_headers_come_as_they_were_sent_with_records_that_have_none_between(cluster):
    topic = cluster.create_topic("t")
    sent = [None, [("kind", b"order"), ("kind", None), ("grüße", b"")], None, [("n", b"x" * 40)]]
    producer = Producer({"bootstrap.servers": cluster.address})
    for headers in sent * 50:
        producer.produce(topic, b"v", partition=0, headers=headers)
    assert producer.flush(20) == 0
    source = KafkaSource(servers=cluster.address, topics=[topic])
    found = read(source, KafkaPart((Range(topic, 0, 0, 200),)))["headers"]
    found.validate(full=True)
    pairs = [h if h is None else [(p["key"], p["value"]) for p in h] for h in found.to_pylist()]
    assert pairs == sent * 50
