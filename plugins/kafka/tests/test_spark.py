"""Both ends through Spark: batch, streaming, and a pipeline."""

import io
import json
import time
from collections import Counter

import fastavro
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import StreamingQueryException

import penstock as pen
from core.tests.coders.registry_server import running
from penstock.contracts import points
from penstock.spark.deadletters import DeadLetters

from .conftest import witness

pytestmark = [pytest.mark.server, pytest.mark.spark]


def numbered(count, first=0):
    return [b"%d" % n for n in range(first, first + count)]


def values(kafka, topic):
    return Counter(m.value() for m in witness(kafka.address, topic))


def test_a_batch_read_and_a_batch_write_in_plain_spark(spark, kafka, new_topic, produce):
    source, target = new_topic(3), new_topic(2)
    for partition in range(3):
        produce(source, numbered(100, 1000 * partition), partition=partition, key=b"k")
    read = spark.read.format("penstock.kafka").options(servers=kafka.address, topics=source)
    frame = read.load()
    assert frame.count() == 300
    write = frame.write.format("penstock.kafka").mode("append")
    write.options(servers=kafka.address, topic=target).save()
    assert values(kafka, target) == values(kafka, source)
    assert {m.key() for m in witness(kafka.address, target)} == {b"k"}


def test_a_stream_in_plain_spark_is_exactly_once_over_restarts(
    spark, kafka, new_topic, produce, tmp_path
):
    source, target = new_topic(2), new_topic(2)
    for turn in range(2):
        produce(source, numbered(500, 1000 * turn), partition=turn)
        read = spark.readStream.format("penstock.kafka").options(
            servers=kafka.address, topics=source, max_rows="200"
        )
        write = (
            read.load()
            .writeStream.format("penstock.kafka")
            .options(
                servers=kafka.address, topic=target, checkpointLocation=str(tmp_path / "state")
            )
        )
        query = write.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        assert len([p for p in query.recentProgress if p["numInputRows"]]) >= 3
    assert values(kafka, target) == values(kafka, source)


def test_a_batch_that_would_be_too_small_is_not_waited_for_where_reading_ends(
    spark, kafka, new_topic, produce, tmp_path
):
    source, first, second = new_topic(2), new_topic(), new_topic()
    produce(source, numbered(30))
    held = {"servers": kafka.address, "min_rows": "1000", "max_wait": "600"}
    rows = spark.readStream.format("penstock.kafka").options(topics=source, **held).load()
    write = rows.writeStream.format("penstock.kafka").options(
        servers=kafka.address, topic=first, checkpointLocation=str(tmp_path / "state")
    )
    assert write.trigger(availableNow=True).start().awaitTermination(120)
    assert values(kafka, first) == Counter(numbered(30))
    flow = (
        pen.pipeline("held")
        .source("kafka", servers=kafka.address, topics=[source], min_rows=1000, max_wait=600)
        .bounded()
        .sink("kafka", servers=kafka.address, topic=second)
    )
    flow.run(checkpoint=str(tmp_path / "pipeline"), spark=spark)
    assert values(kafka, second) == Counter(numbered(30))


def test_a_pipeline_mirrors_a_topic_to_another_cluster(
    spark, kafka, fresh_kafka, new_topic, produce, tmp_path
):
    source = new_topic(3)
    target, now = fresh_kafka.create_topic(source, 3), int(time.time() * 1000)
    for partition in range(3):
        produce(
            source,
            [*numbered(50, 1000 * partition), None],
            partition=partition,
            key=b"same",
            headers=[("h", b"%d" % partition), ("h", None)],
            timestamp=now - 1000 * partition,
        )
    flow = (
        pen.pipeline("mirror")
        .source("kafka", servers=kafka.address, topics=[source])
        .bounded()
        .sink("kafka", servers=fresh_kafka.address, topic=target, partitioner="keep")
    )
    flow.run(checkpoint=str(tmp_path / "state"), spark=spark)

    def seen(address):
        return [
            [
                (m.key(), m.value(), m.timestamp(), m.headers())
                for m in witness(address, source)
                if m.partition() == partition
            ]
            for partition in range(3)
        ]

    assert sum(map(len, seen(kafka.address))) == 153
    assert seen(fresh_kafka.address) == seen(kafka.address)


def test_avro_in_registry_framing_is_decoded_in_the_reader(spark, kafka, new_topic, produce):
    topic = new_topic()
    fields = [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    with running() as registry:
        path = f"/subjects/{topic}-value/versions"
        made = registry.answer("POST", path, {"schema": schema})
        body = io.BytesIO()
        fastavro.schemaless_writer(body, json.loads(schema), {"id": 7, "who": "ada"})
        framed = b"\0" + made["id"].to_bytes(4, "big") + body.getvalue()
        produce(topic, [framed], key=b"k")
        coder = {"coder.framing": "registry", "coder.registry.url": registry.url}
        read = spark.read.format("penstock.kafka").options(servers=kafka.address, topics=topic)
        read = read.options(coder="avro", **coder).option("coder.topic", topic)
        [row] = read.load().collect()
    assert (row["id"], row["who"]) == (7, "ada")
    assert bytes(row["_pen"]["key"]) == b"k"


def test_a_pipeline_mirrors_a_topic_and_moves_the_consumer_group(
    kafka, new_topic, produce, tmp_path
):
    source, target = new_topic(2), new_topic(2)
    for partition in range(2):
        produce(source, numbered(200, 1000 * partition), partition=partition, headers=[("h", b"1")])
    flow = (
        pen.pipeline("mirror")
        .source("kafka", servers=kafka.address, topics=[source], max_rows=150, group=f"g-{source}")
        .bounded()
        .sink("kafka", servers=kafka.address, topic=target)
    )
    flow.run(checkpoint=str(tmp_path / "state"))
    assert values(kafka, target) == values(kafka, source)
    assert all(m.headers() == [("h", b"1")] for m in witness(kafka.address, target))
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": f"g-{source}"})
    found = consumer.committed([TopicPartition(source, p) for p in range(2)], timeout=20)
    consumer.close()
    assert [place.offset for place in found] == [200, 200]


def test_rows_that_a_stream_refused_are_refused_again_when_its_batch_is_replayed(
    spark, kafka, new_topic, produce, tmp_path
):
    source, target = new_topic(), new_topic()
    produce(source, [b"small", b"x" * 2000])

    def run(most):
        read = spark.readStream.format("penstock.kafka")
        rows = read.options(servers=kafka.address, topics=source).load()
        write = rows.writeStream.format("penstock.kafka").options(
            servers=kafka.address, topic=target, checkpointLocation=str(tmp_path / "state")
        )
        write = write.option("kafka.message.max.bytes", most)
        query = write.trigger(availableNow=True).start()
        with pytest.raises(StreamingQueryException, match="1 rows were refused"):
            query.awaitTermination(120)

    for most in ("1000", "1000", "9000"):
        run(most)
    assert values(kafka, target) == Counter([b"small"])


def test_a_driver_that_falls_before_dead_letters_are_published_publishes_them_later(
    spark, kafka, new_topic, produce, tmp_path, monkeypatch
):
    source, target = new_topic(), new_topic()
    produce(source, [b"small", b"x" * 2000])
    flow = (
        pen.pipeline("letters")
        .source("kafka", servers=kafka.address, topics=[source])
        .bounded()
        .sink("kafka", servers=kafka.address, topic=target, **{"kafka.message.max.bytes": "1000"})
    )

    def fall(name, **facts):
        if name == "tasks-written":
            raise RuntimeError("the driver falls")

    with monkeypatch.context() as falling:
        falling.setattr(points, "reached", fall)
        with pytest.raises(Exception, match="the driver falls"):
            flow.run(checkpoint=str(tmp_path / "state"), spark=spark)
    assert values(kafka, target) == Counter([b"small"])
    handle = flow.run(checkpoint=str(tmp_path / "state"), spark=spark)
    [letter] = DeadLetters(handle.checkpoint.dead_letters).table().to_pylist()
    assert "message.max.bytes=1000" in letter["message"]
    assert values(kafka, target) == Counter([b"small"])


@pytest.mark.slow
def test_topics_are_merged_by_event_time_on_their_way_into_one(
    spark, kafka, new_topic, produce, tmp_path
):
    first, second, target = new_topic(2), new_topic(), new_topic()
    moments = [*range(1000, 1300, 7)]
    for number, moment in enumerate(moments):
        topic, partition = [(first, 0), (first, 1), (second, 0)][number % 3]
        produce(topic, [b"%d" % moment], partition=partition, timestamp=moment)
    flow = (
        pen.pipeline("merge")
        .source("kafka", servers=kafka.address, topics=[first, second], order="event_time")
        .bounded()
        .sink("kafka", servers=kafka.address, topic=target)
    )
    flow.run(checkpoint=str(tmp_path / "state"), spark=spark)
    assert [int(m.value()) for m in witness(kafka.address, target)] == moments


@pytest.mark.slow
def test_a_topic_that_moves_passes_each_record_once(spark, kafka, new_topic, produce, tmp_path):
    old, new, target = new_topic(), new_topic(), new_topic()
    for topic, some in ((old, range(60)), (new, range(40, 100))):
        for number in some:
            produce(topic, [b"%d" % number], headers=[("message-id", b"id-%d" % number)])
    flow = (
        pen.pipeline("move")
        .source("kafka", servers=kafka.address, topics=[old, new])
        .bounded()
        .deduplicate("header:message-id", horizon="1 day")
        .sink("kafka", servers=kafka.address, topic=target)
    )
    flow.run(checkpoint=str(tmp_path / "state"), spark=spark)
    assert values(kafka, target) == Counter(numbered(100))
