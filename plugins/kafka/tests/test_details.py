"""Details found in librdkafka's memory, and what happens when they are not there."""

from ctypes import c_int64

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from penstock_kafka import clients, details
from penstock_kafka.details import Detail
from penstock_kafka.positions import KafkaPart, Range
from penstock_kafka.source import KafkaSource

from . import mockcluster


@pytest.fixture
def records():
    """Records whose word 13 is given; the topic is word 1."""
    block = np.zeros((2000, 32), np.int64)
    block[:, 13] = np.arange(1000, 3000)
    block[:, 1] = block.ctypes.data
    yield block.ctypes.data + 256 * np.arange(2000)
    del block


class Asking:
    """Tells what is in a word of a record, and counts."""

    def __init__(self, word, change=lambda value: value):
        self.word, self.change, self.count = word, change, 0

    def __call__(self, record):
        self.count += 1
        return self.change(c_int64.from_address(record + 8 * self.word).value)


def test_one_record_is_asked_and_the_others_are_read(records):
    asking = Asking(13)
    detail = Detail(asking, np.int64)
    assert detail.of(records).tolist() == list(range(1000, 3000))
    assert detail.of(records[::-7]).tolist() == list(range(1000, 3000))[::-7]
    assert (detail.place, asking.count) == (13 * 8, 2)


def test_an_answer_that_lies_nowhere_in_a_record_is_asked_of_each(records):
    asking = Asking(13, lambda value: 2 * value + 1)
    detail = Detail(asking, np.int64)
    assert detail.of(records).tolist() == [2 * n + 1 for n in range(1000, 3000)]
    assert detail.place is None
    assert asking.count > len(records)


def test_a_place_that_a_real_record_contradicts_is_not_believed(records):
    real = set(records.tolist())
    plain = Asking(13)

    def ask(record):
        return plain(record) + (1 if record in real else 0)

    detail = Detail(ask, np.int64)
    assert detail.of(records).tolist() == [n + 1 for n in range(1000, 3000)]
    assert detail.place is None


def test_this_build_of_librdkafka_is_read_as_it_would_answer(monkeypatch):
    cluster = mockcluster.MockCluster()
    name = cluster.create_topic("detailed")
    producer = Producer({"bootstrap.servers": cluster.address})
    for number in range(500):
        producer.produce(name, str(number), partition=0, timestamp=1000 + number)
    assert producer.flush(20) == 0
    source = KafkaSource(servers=cluster.address, topics=[name], columns="spark")
    part = KafkaPart((Range(name, 0, 0, 500),))

    def rows():
        return pa.Table.from_batches(source.read(part)).combine_chunks()

    read = rows()
    known = [details.times, details.kinds, details.epochs]
    assert all(each.place is not None for each in known)
    for each in known:
        monkeypatch.setattr(each, "place", None)
    assert rows() == read
    assert read["timestamp"].cast(pa.int64()).to_pylist() == [1000 * n for n in range(1000, 1500)]
    assert set(read["timestampType"].to_pylist()) == {0}
    clients.close_all()
    cluster.close()
