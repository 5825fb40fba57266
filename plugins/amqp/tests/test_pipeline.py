"""Pipelines from queue to queue, on a real broker: progress, a clean stop, nothing left behind."""

import os
import threading
from pathlib import Path

import pytest

import penstock as pen
from penstock.conformance import processes
from penstock.conformance.waiting import until
from penstock.contracts import Secret
from penstock_amqp.sink import AmqpSink
from penstock_amqp.work import Task

from .conftest import Place

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(180)]
IDS = [f"m{n:05d}" for n in range(500)]
BOTH = pytest.mark.parametrize("delivery", ["optimistic", "pessimistic"])


@pytest.fixture
def out(rabbitmq):
    return Place(rabbitmq)


def relay(place, out, delivery, **options):
    """Everything of one queue into another, in upper case."""
    url = place.server.url
    return (
        pen.pipeline("relay")
        .source("amqp", name="in", url=url, queue=place.queue, delivery=delivery, **options)
        .map(lambda record: {**record, "value": record["value"].upper()})
        .sink("amqp", name="out", url=url, routing_key=out.queue)
    )


def receiving():
    """The processes below this one that hold a queue's messages: stream readers and receivers."""
    names = (b"python_streaming_source_runner", b"penstock.spark.queues.child")
    found = []
    for pid in processes.tree(os.getpid()):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(name in command for name in names):
            found.append(pid)
    return found


@BOTH
def test_a_bounded_pipeline_moves_all_and_leaves_nothing_behind(
    spark, place, out, delivery, tmp_path
):
    place.send(*IDS)
    flow = relay(place, out, delivery, max_rows=200).bounded()
    flow.run(checkpoint=str(tmp_path / "state"), spark=spark)
    assert sorted(body for _, _, body in out.take()) == [name.upper().encode() for name in IDS]
    until(lambda: place.consumers() == 0, within=20, why="the broker has no consumer of ours")
    until(lambda: not receiving(), within=20, why="no reader or receiver process is left")
    assert place.depth() == 0


@BOTH
def test_a_running_pipeline_tells_how_it_stands_and_stops_without_a_trace(
    spark, place, out, delivery, tmp_path
):
    state = tmp_path / "state"
    flow = relay(place, out, delivery, max_rows=200)
    handle = flow.run(checkpoint=str(state), spark=spark, wait=False)
    try:
        place.send(*IDS)
        until(lambda: out.depth() == len(IDS), within=90, why="all are relayed")
        until(lambda: handle.sources().get("in", {}).get("received") == len(IDS), within=60,
              why="the progress counts them all")  # fmt: skip
        assert receiving(), "what is looked for below exists"
        said = handle.progress()["sources"]["in"]
        assert {"lag", "depth", "ready", "redelivered", "unacknowledged"} <= set(said)
        assert said["redelivered"] == 0
        assert ("spool_bytes" in said) == (delivery == "pessimistic")
    finally:
        handle.stop()
    until(lambda: place.consumers() == 0, within=20, why="the broker has no consumer of ours")
    until(lambda: not receiving(), within=20, why="no reader or receiver process is left")
    assert place.depth() == 0, "a clean stop gives nothing back"
    assert not [t.name for t in threading.enumerate() if "penstock" in t.name]
    until(lambda: not list(state.rglob("*.seg")), within=20, why="no segment is left")


def test_a_worker_pipeline_answers_every_item_with_progress(spark, place, out, tmp_path):
    place.send(*[f"item-{n}" for n in range(12)], correlation_id=None)
    url = place.server.url

    def work(item, tell):
        tell("begun")
        return b"done " + item

    task = Task(work, AmqpSink(url=Secret(url), routing_key=out.queue))
    worker = (
        pen.pipeline("worker")
        .source("amqp", url=url, queue=place.queue, max_rows=5)
        .map(task, meta=True, schema="value binary")
        .sink("amqp", url=url, routing_key=out.queue, correlate=True)
        .bounded()
    )
    worker.run(checkpoint=str(tmp_path / "worker"), spark=spark)
    found = out.take()
    progress = {p.correlation_id for _, p, _ in found if p.type == "progress"}
    answers = {p.correlation_id: body for _, p, body in found if p.type is None}
    assert progress == set(answers) == {f"item-{n}" for n in range(12)}
    assert answers["item-7"] == b"done item-7"
    assert place.depth() == 0
