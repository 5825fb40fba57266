"""Dead letters of running pipelines: to any sink, and after a replay."""

import json
from pathlib import Path

import pytest

import penstock as pen
from penstock.contracts.errors import RunError, WriteError
from penstock.spark.deadletters import DeadLetters
from penstock.spark.drain import Drain
from penstock.spark.handle import Handle
from penstock.spark.replay import replay

pytestmark = pytest.mark.spark

ORDERS = "id long, customer string, total double, at timestamp"


def lines(folder):
    files = [p for p in sorted(Path(folder).iterdir()) if p.is_file() and p.name[0] not in "._"]
    return [json.loads(line) for p in files for line in p.read_text().splitlines()]


def one_in_a_thousand(order):
    if order["id"] % 1000 == 7:
        raise ValueError(f"order {order['id']} is odd")
    return order


def mended(order):
    return order


def test_one_failure_in_a_thousand_harms_no_other_and_a_replay_after_the_fix_empties_them(
    spark, tmp_path
):
    def flow(function):
        return (
            pen.pipeline("thousand")
            .source("generator", rows=20_000, seed=7)
            .limits(max_rows=7_000)
            .decode("json", schema=ORDERS)
            .map(function, schema=ORDERS, name="enrich")
            .on_error("dead-letter", sink="localfile", options={"path": str(tmp_path / "letters")})
            .sink("localfile", path=str(tmp_path / "out"))
        )

    handle = flow(one_in_a_thousand).run(checkpoint=tmp_path / "state", spark=spark)
    odd = list(range(7, 20_000, 1000))
    assert handle.counts()["enrich"].errors == len(odd) == 20
    told = lines(tmp_path / "letters")
    assert sorted(int(letter["message"].split()[1]) for letter in told) == odd
    assert {letter["node"] for letter in told} == {"enrich"}
    waiting = DeadLetters(handle.checkpoint.dead_letters)
    assert waiting.table().num_rows == 20
    arrived = sorted(order["id"] for order in lines(tmp_path / "out"))
    assert arrived == [n for n in range(20_000) if n % 1000 != 7]

    done = replay(flow(mended).graph, tmp_path / "state", spark=spark)
    assert done == {"replayed": 20, "failed": 0}
    assert waiting.table().num_rows == 0
    assert sorted(order["id"] for order in lines(tmp_path / "out")) == list(range(20_000))
    assert len(lines(tmp_path / "letters")) == 20


def test_letters_reach_their_sink_once_when_a_batch_is_done_again(spark, tmp_path):
    broken = tmp_path / "broken"
    broken.touch()

    def fails_once(frame, number):
        if broken.exists():
            broken.unlink()
            raise OSError("not yet")

    def run():
        flow = (
            pen.pipeline("again")
            .source("generator", rows=3_000)
            .decode("json", schema=ORDERS)
            .map(one_in_a_thousand, schema=ORDERS, name="enrich")
            .sink("localfile", path=str(tmp_path / "out"))
            .sink(fails_once, name="last")
            .on_error("dead-letter", sink="localfile", options={"path": str(tmp_path / "letters")})
        )
        return flow.run(checkpoint=tmp_path / "state", spark=spark)

    with pytest.raises(WriteError, match="not yet"):
        run()
    assert not (tmp_path / "letters").exists()
    handle = run()
    assert len(lines(tmp_path / "letters")) == 3
    assert DeadLetters(handle.checkpoint.dead_letters).table().num_rows == 3
    assert len(lines(tmp_path / "out")) == 2_997


def test_a_function_of_a_dataframe_gets_dead_letters_too(spark, tmp_path):
    handle = (
        pen.pipeline("frames")
        .source("generator", rows=2_000)
        .decode("json", schema=ORDERS)
        .map(one_in_a_thousand, schema=ORDERS, name="enrich")
        .on_error(
            "dead-letter", sink="spark", options={"format": "json", "path": f"{tmp_path}/letters"}
        )
        .sink("stdout", limit=0)
        .run(checkpoint=tmp_path / "state", spark=spark)
    )
    found = spark.read.json(f"{tmp_path}/letters").select("node", "message").collect()
    assert sorted(row.message for row in found) == ["order 1007 is odd", "order 7 is odd"]
    assert handle.counts()["enrich"].errors == 2


class Held(Drain):
    """Lets no batch begin."""

    def __init__(self, *args):
        super().__init__(*args)
        self._held = True


def test_a_replay_that_is_stopped_before_its_batch_keeps_the_letters(spark, tmp_path, monkeypatch):
    def flow(function):
        return (
            pen.pipeline("stopped")
            .source("generator", rows=100, seed=7)
            .decode("json", schema=ORDERS)
            .map(function, schema=ORDERS, name="enrich")
            .sink("localfile", path=str(tmp_path / "out"))
        )

    handle = flow(one_in_a_thousand).run(checkpoint=tmp_path / "state", spark=spark)
    waiting = DeadLetters(handle.checkpoint.dead_letters)
    assert waiting.table().num_rows == 1
    with monkeypatch.context() as patch:
        patch.setattr("penstock.spark.running.Drain", Held)
        patch.setattr(Handle, "wait", asked_once(Handle.wait))
        with pytest.raises(RunError, match="stopped before its letters had gone through"):
            replay(flow(mended).graph, tmp_path / "state", spark=spark)
    assert waiting.table().num_rows == 1
    assert replay(flow(mended).graph, tmp_path / "state", spark=spark)["failed"] == 0
    assert waiting.table().num_rows == 0
    assert sorted(order["id"] for order in lines(tmp_path / "out")) == list(range(100))


def asked_once(wait):
    """`Handle.wait` as it goes when a signal comes at once: it stops, then waits."""
    asked = []

    def waits(self, timeout=None):
        if not asked:
            asked.append(self)
            self.stop()
        return wait(self, timeout)

    return waits
