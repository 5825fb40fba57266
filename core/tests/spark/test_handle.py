"""What a handle says of a running pipeline, and what listeners are told of it."""

import json
import threading
from datetime import datetime

import pytest

import penstock as pen
from penstock import registry
from penstock.conformance.waiting import until
from penstock.contracts.errors import PenstockError
from penstock.registry import hookimpl
from penstock.spark.drain import Drain

pytestmark = pytest.mark.spark
ORDERS = "id long, customer string, total double"


class Listener:
    def __init__(self):
        self.told = []

    @hookimpl
    def penstock_analysing(self, pipeline, graph):
        self.told.append(("analysing", pipeline, graph.name))

    @hookimpl
    def penstock_analysed(self, pipeline, plan):
        self.told.append(("analysed", pipeline, plan.graph.name))

    @hookimpl
    def penstock_started(self, pipeline, query, checkpoint):
        self.told.append(("started", query, checkpoint))

    @hookimpl
    def penstock_batch_begun(self, pipeline, batch):
        self.told.append(("batch_begun", pipeline, batch))

    @hookimpl
    def penstock_batch_done(self, pipeline, batch, counts):
        self.told.append(("batch_done", pipeline, batch, counts.get("out", [0])[0]))

    @hookimpl
    def penstock_failed(self, pipeline, error):
        self.told.append(("failed", pipeline, str(error)))

    @hookimpl
    def penstock_stopped(self, pipeline):
        self.told.append(("stopped", pipeline))

    def kinds(self):
        return [told[0] for told in self.told]


@pytest.fixture
def listener():
    heard = Listener()
    registry.hooks().register(heard)
    yield heard
    registry.hooks().unregister(heard)


def orders(tmp_path, **options):
    source = pen.pipeline("orders").source("generator", name="in", **options)
    return source.decode("json", schema=ORDERS, name="decode")


def test_listeners_are_told_of_everything_around_a_run_in_order(spark, tmp_path, listener):
    flow = orders(tmp_path, rows=100).limits(max_rows=60)
    flow = flow.sink("localfile", name="out", path=str(tmp_path / "out"))
    handle = flow.run(checkpoint=tmp_path / "state", spark=spark)
    assert handle.wait()
    query = handle.checkpoint.claim("orders")
    assert listener.told == [
        ("analysing", "orders", "orders"),
        ("analysed", "orders", "orders"),
        ("started", query, str(tmp_path / "state")),
        ("batch_begun", "orders", 0),
        ("batch_done", "orders", 0, 60),
        ("batch_begun", "orders", 1),
        ("batch_done", "orders", 1, 40),
        ("stopped", "orders"),
    ]


def fails(order):
    raise ValueError("no order pleases me")


def test_listeners_are_told_of_a_failure_that_nobody_waits_for(spark, tmp_path, listener):
    flow = orders(tmp_path, rate=1000).map(fails, schema=ORDERS, on_error="stop")
    flow = flow.sink("localfile", name="out", path=str(tmp_path / "out"))
    handle = flow.run(checkpoint=tmp_path / "state", spark=spark)
    until(lambda: "failed" in listener.kinds(), within=60, why="the failure is told")
    with pytest.raises(PenstockError, match="no order pleases me"):
        handle.wait()
    [failed] = [told for told in listener.told if told[0] == "failed"]
    assert "no order pleases me" in failed[2]
    assert "stopped" not in listener.kinds()


def test_lag_and_rates_are_what_the_source_and_the_clock_say(spark, tmp_path):
    flow = orders(tmp_path, rows=1000).limits(max_rows=300)
    flow = flow.sink("localfile", name="out", path=str(tmp_path / "out"))
    handle = flow.run(checkpoint=tmp_path / "state", spark=spark)
    behind = []
    for report in handle.query.recentProgress:
        said = report["sources"][0]["latestOffset"]
        behind.append(sum(json.loads(said)["lag"].values()))
    assert behind[:4] == [700, 400, 100, 0]
    assert sum(handle.lag()["in"].values()) == 0
    progress = handle.progress()
    assert progress["lag"] == handle.lag()
    for name in ("in", "decode", "out"):
        node = progress["nodes"][name]
        assert max(node["in"], node["out"]) == 1000
        assert node["rate"] == pytest.approx(1000 / progress["seconds"])


def test_a_batch_holds_no_more_bytes_than_the_pipeline_allows(spark, tmp_path, listener):
    flow = pen.pipeline("orders").source("generator", rows=100, format="bytes", size=100)
    flow = flow.limits(max_bytes=4000)
    flow = flow.sink("localfile", name="out", path=str(tmp_path / "out"))
    flow.run(checkpoint=tmp_path / "state", spark=spark)
    assert [told[3] for told in listener.told if told[0] == "batch_done"] == [40, 40, 20]


def test_batches_of_an_endless_pipeline_begin_no_more_often_than_max_wait(spark, tmp_path):
    flow = orders(tmp_path, rate=1000).limits(max_wait="2 s")
    flow = flow.sink("localfile", name="out", path=str(tmp_path / "out"))
    handle = flow.run(checkpoint=tmp_path / "state", spark=spark)

    def begun():
        told = {report["batchId"]: report["timestamp"] for report in handle.query.recentProgress}
        return [datetime.fromisoformat(told[number]).timestamp() for number in sorted(told)]

    until(lambda: len(begun()) >= 3, within=60, why="three batches are done")
    handle.stop()
    turns = [int(at // 2) for at in begun()]  # Spark begins at whole multiples of the pause
    assert len(set(turns)) == len(turns)


@pytest.mark.timeout(90)
def test_a_stop_ends_even_if_the_next_batch_waits_to_begin(spark, tmp_path, listener, monkeypatch):
    waits = threading.Event()
    enter = Drain._enter

    def entered(drain):
        if drain._held:
            waits.set()
        enter(drain)

    monkeypatch.setattr(Drain, "_enter", entered)
    flow = orders(tmp_path, rate=1000)
    flow = flow.sink("localfile", name="out", path=str(tmp_path / "out"))
    handle = flow.run(checkpoint=tmp_path / "state", spark=spark)
    until(lambda: handle.counts().get("out"), within=60, why="a batch is written")
    assert handle._drain.hold(30)
    assert waits.wait(30)
    handle.stop()
    assert not handle.running
    assert listener.kinds()[-1] == "stopped"
    assert "failed" not in listener.kinds()
