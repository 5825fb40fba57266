"""Records are handed back to librdkafka, all at once where it can, else one by one."""

import pytest
from confluent_kafka import Producer

from penstock_kafka import clients, taken
from penstock_kafka.positions import KafkaPart, Range
from penstock_kafka.source import KafkaSource

from . import mockcluster


@pytest.fixture
def topic():
    cluster = mockcluster.MockCluster()
    name = cluster.create_topic("lent")
    producer = Producer({"bootstrap.servers": cluster.address})
    for number in range(1000):
        producer.produce(name, str(number), partition=0)
    assert producer.flush(20) == 0
    yield KafkaSource(servers=cluster.address, topics=[name])
    clients.close_all()
    cluster.close()


@pytest.fixture
def unknown_again():
    taken.message_lists.cache_clear()
    yield
    taken.message_lists.cache_clear()


def values(source):
    part = KafkaPart((Range("lent", 0, 0, 1000),))
    return [int(v) for batch in source.read(part) for v in batch.column("value").to_pylist()]


def test_a_list_of_records_is_what_we_take_it_for():
    rk = taken.lib()
    if rk.messages_destroy is None:
        pytest.skip("this librdkafka has no lists of records")
    assert taken.message_lists() is not None


def test_all_records_are_handed_back_at_once(topic, monkeypatch):
    lists = taken.message_lists()
    if lists is None:
        pytest.skip("this librdkafka has no lists of records")
    given_back = []
    destroy = lists.destroy
    monkeypatch.setattr(lists, "destroy", lambda block: given_back.append(destroy(block)))
    monkeypatch.setattr(taken.lib(), "message_destroy", None)
    assert values(topic) == list(range(1000))
    assert 0 < len(given_back) < 100


@pytest.mark.parametrize("how", ["no such function", "another layout"])
def test_without_lists_every_record_is_handed_back_by_itself(
    topic, unknown_again, monkeypatch, how
):
    rk = taken.lib()
    if how == "no such function":
        monkeypatch.setattr(rk, "messages_destroy", None)
    else:
        monkeypatch.setattr(rk, "messages_count", lambda block: 3)
    given_back = []
    destroy = rk.message_destroy
    monkeypatch.setattr(rk, "message_destroy", lambda one: given_back.append(destroy(one)))
    assert values(topic) == list(range(1000))
    assert len(given_back) >= 1000
