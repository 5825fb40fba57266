"""Queues as plain Spark users read them, from a real broker."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from penstock.conformance.waiting import until
from penstock.spark.queues.segments import segments

pytestmark = [pytest.mark.server, pytest.mark.spark]
IDS = [f"m{n:05d}" for n in range(1500)]


@pytest.fixture
def stream(spark, place, tmp_path):
    def start(each, available_now=False, checkpoint=str(tmp_path / "checkpoint"), **options):
        given = {"url": place.server.url, "queue": place.queue, "checkpoint": checkpoint, **options}
        frame = spark.readStream.format("penstock.amqp").options(**given).load()
        writer = frame.writeStream.foreachBatch(each).option("checkpointLocation", checkpoint)
        if available_now:
            writer = writer.trigger(availableNow=True)
        queries.append(writer.start())
        return queries[-1]

    queries = []
    yield start
    for query in queries:
        query.stop()


class Seen:
    """A sink that remembers, and can be held in the middle of a batch."""

    def __init__(self):
        self.ids = []
        self.patience = 60
        self.let = threading.Event()
        self.let.set()
        self.inside = threading.Event()

    def __call__(self, frame, number):
        found = [row.id for row in frame.select("id").collect()]
        self.inside.set()
        assert self.let.wait(self.patience)
        self.ids += found


def back(place, count):
    """All consumers have gone; so many messages are in the queue then."""
    until(lambda: place.consumers() == 0, within=20, why="the consumers are gone")
    until(lambda: place.depth() == count, within=20, why=f"{count} messages are in the queue")


@pytest.mark.parametrize("delivery", ["optimistic", "pessimistic"])
def test_available_now_reads_all_once_in_bounded_batches_and_acknowledges_the_last(
    stream, place, delivery
):
    place.send(*IDS)
    seen = Seen()
    query = stream(seen, available_now=True, delivery=delivery, max_rows=400)
    assert query.awaitTermination(90)
    assert seen.ids == IDS
    assert max(p["numInputRows"] for p in query.recentProgress) <= 400
    back(place, 0)


def test_nothing_is_acknowledged_while_a_sink_blocks_and_all_is_when_idle(stream, place):
    place.send(*IDS[:100])
    seen = Seen()
    seen.let.clear()
    query = stream(seen)
    assert seen.inside.wait(60)
    place.server.ctl("eval", "ok.")  # the broker has answered since the sink began to block
    held = place.server.ctl("list_queues", "name", "messages_unacknowledged", "messages_ready")
    ours = next(line.split() for line in held.splitlines() if line.startswith(place.queue))
    assert int(ours[1]) + int(ours[2]) == 100, held
    seen.let.set()
    until(lambda: len(seen.ids) == 100, within=60, why="all are written")

    def reported():
        progress = query.lastProgress
        return progress and json.loads(progress["sources"][0]["latestOffset"])

    def unacknowledged():
        listed = place.server.ctl("list_queues", "name", "messages")
        return next(int(li.split()[1]) for li in listed.splitlines() if li.startswith(place.queue))

    until(lambda: unacknowledged() == 0, within=30, why="an idle stream acknowledges", every=0.5)
    assert {"depth", "unacknowledged", "redelivered", "ready"} <= set(reported())
    query.stop()
    back(place, 0)


@pytest.mark.parametrize(("delivery", "twice"), [("optimistic", 800), ("pessimistic", 0)])
def test_a_full_disk_ends_the_query_unacknowledged_and_room_lets_it_go_on(
    stream, place, disk, delivery, twice
):
    place.send(*IDS)
    state, batches = disk.path / "state", {}
    options = {"delivery": delivery, "unique_ids": delivery == "pessimistic", "max_rows": 400}
    options |= {"checkpoint": str(disk.path / "checkpoint"), "state": str(state)}

    def written(frame, number):
        batches.setdefault(number, [row.id for row in frame.select("id").collect()])

    def uncommitted(frame, number):
        written(frame, number)
        disk.fill()

    with pytest.raises(StreamingQueryException, match="No space left"):
        stream(uncommitted, available_now=True, **options).awaitTermination(60)
    until(lambda: place.consumers() == 0, within=20, why="the consumers are gone")
    spooled = sum(segment.rows for segment in segments(state / "inbox"))
    assert place.depth() + spooled == len(IDS)
    disk.relieve()
    assert stream(written, available_now=True, **options).awaitTermination(90)
    found = [each for ids in batches.values() for each in ids]
    assert set(found) == set(IDS)
    assert len(found) <= len(IDS) + twice
    back(place, 0)


def test_the_second_format_of_the_offset_log_is_understood(spark, stream, place):
    place.send(*IDS[:100])
    seen = Seen()
    spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
    try:
        assert stream(seen, available_now=True, max_rows=40).awaitTermination(90)
    finally:
        spark.conf.unset("spark.sql.streaming.offsetLog.formatVersion")
    assert seen.ids == IDS[:100]
    back(place, 0)


@pytest.mark.slow
def test_stopping_in_mid_batch_gives_the_messages_back(stream, place):
    place.send(*IDS[:100])
    seen = Seen()
    seen.patience = 5  # Spark cannot interrupt Python: its stop waits for the function to end
    seen.let.clear()
    query = stream(seen)
    assert seen.inside.wait(60)
    query.stop()
    assert not seen.ids
    back(place, 100)


def test_a_drain_empties_the_queue_and_must_be_asked_for(spark, place):
    place.send(*IDS)
    reader = spark.read.format("penstock.amqp").options(url=place.server.url, queue=place.queue)
    with pytest.raises(Exception, match="drain=true"):
        reader.load().count()
    assert place.depth() == len(IDS)
    rows = reader.option("drain", "true").load().select("id").collect()
    assert [row.id for row in rows] == IDS
    back(place, 0)


@pytest.mark.slow
def test_receivers_on_executors_fill_a_spool_that_another_query_reads(place, tmp_path):
    place.send(*IDS)
    driver = Path(__file__).with_name("executors_driver.py")
    command = [sys.executable, str(driver), str(tmp_path), place.server.url, place.queue]
    done = subprocess.run([*command, str(len(IDS))], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads((tmp_path / "seen.json").read_text())
    assert sorted(told["ids"]) == IDS
    assert told["executors"] == 2, "each receiver is in a process of another executor"
    assert not told["elsewhere"], "nobody else talks to the broker"
    back(place, 0)
