"""What is refused before it is sent, against what librdkafka itself refuses."""

import numpy as np
import pyarrow as pa
import pytest

from penstock_kafka import records
from penstock_kafka.producer import ColumnProducer
from penstock_kafka.refusals import Rule, sort_out
from penstock_kafka.sink import KafkaSink
from penstock_kafka.writer import settings

from . import mockcluster
from .conftest import envelopes

MOST = 5_000


@pytest.fixture
def cluster():
    made = mockcluster.MockCluster()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        (None, None),
        (b"", [{"key": "", "value": b""}]),
        (b"k" * 300, [{"key": "name", "value": None}, {"key": "ü" * 40, "value": b"v" * 64}]),
        (b"key", [{"key": "n" * 63, "value": b"v" * 63}, {"key": "n" * 64, "value": b""}]),
    ],
)
def test_the_limit_is_drawn_where_librdkafka_draws_it(cluster, key, headers):
    topic = cluster.create_topic("t")
    sink = KafkaSink(
        servers=cluster.address, topic=topic, kafka={"message.max.bytes": str(MOST)}, timeout=10
    )
    sizes = range(MOST - 700, MOST + 1)
    rows = envelopes(
        [b"x" * size for size in sizes], keys=[key] * len(sizes), headers=[headers] * len(sizes)
    )
    good, refused = sort_out(sink, Rule.of(sink), rows)
    producer = ColumnProducer(settings(sink))
    codes = records.Sender(sink, producer)._send(topic, rows)
    producer.close()
    taken = int(np.count_nonzero(codes == 0))
    assert 0 < taken < len(sizes)
    assert good[0][1].num_rows == taken
    assert refused[0].rows.num_rows == len(refused[0].errors) == len(sizes) - taken


def test_every_reason_belongs_to_its_row():
    sink = KafkaSink(servers="localhost:1", topic="t", kafka={"message.max.bytes": "1000"})
    rows = envelopes(
        [b"x" * 2000, b"fine", b"y"], headers=[None, [], [{"key": None, "value": b"1"}]]
    )
    _, (refused,) = sort_out(sink, Rule.of(sink), rows)
    assert refused.rows.column("value").to_pylist() == [b"x" * 2000, b"y"]
    assert ["message.max.bytes" in refused.errors[0], refused.errors[1]] == [
        True,
        "a header has no name",
    ]


def test_slices_are_judged_by_their_own_rows():
    sink = KafkaSink(servers="localhost:1", topic="t")
    headers = [[{"key": None, "value": b"1"}], [{"key": "a", "value": b"1"}], None]
    rows = envelopes([b"0", b"1", b"2"], headers=headers).slice(1)
    good, refused = sort_out(sink, Rule.of(sink), rows)
    assert refused == []
    assert good[0][1].equals(rows)
    assert pa.Table.from_batches([good[0][1]]).num_rows == 2
