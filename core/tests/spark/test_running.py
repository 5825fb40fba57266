"""Pipelines run on Spark: what comes out, what fails, how it ends and goes on."""

import json
import random
from pathlib import Path

import pytest

import penstock as pen
from penstock.conformance.waiting import until
from penstock.contracts.errors import DeclareError, LayoutError, PenstockError, RunError
from penstock.spark.writing import Writing

pytestmark = pytest.mark.spark

ORDERS = "id long, customer string, total double, at timestamp"


def records(folder):
    """What a localfile sink published, as JSON objects."""
    files = [p for p in sorted(Path(folder).iterdir()) if p.is_file() and p.name[0] not in "._"]
    return [json.loads(line) for p in files for line in p.read_text().splitlines()]


def orders(name="orders", rows=1000, **options):
    return (
        pen.pipeline(name)
        .source("generator", rows=rows, seed=7, **options)
        .decode("json", schema=ORDERS)
    )


def test_a_bounded_pipeline_ends_with_every_record_counted(spark, tmp_path):
    handle = (
        orders()
        .where("total > 100")
        .map(lambda order: {**order, "total": order["total"] * 2}, schema=ORDERS, name="double")
        .sink("localfile", path=str(tmp_path / "out"))
        .run(checkpoint=tmp_path / "state", spark=spark)
    )
    assert not handle.running
    written = records(tmp_path / "out")
    counts = handle.counts()
    assert all(order["total"] > 200 for order in written)
    assert counts["generator"].rows_out == counts["decode-json"].rows_in == 1000
    assert counts["double"].rows_in == counts["localfile"].rows_in == len(written)
    assert 0 < len(written) < 1000


def test_a_restart_goes_on_where_the_checkpoint_stands(spark, tmp_path):
    def run(rows):
        flow = orders(rows=rows).sink("localfile", path=str(tmp_path / "out"))
        return flow.run(checkpoint=tmp_path / "state", spark=spark)

    run(300)
    run(300)
    assert len(records(tmp_path / "out")) == 300
    run(500)
    assert sorted(order["id"] for order in records(tmp_path / "out")) == list(range(500))


def shake(order):
    order["total"] = random.random()
    return order


def test_two_sinks_see_the_same_rows_of_a_function_that_is_not_deterministic(spark, tmp_path):
    shaken = orders(rows=500).map(shake, schema=ORDERS)
    flow = shaken.sink("localfile", name="left", path=str(tmp_path / "left")).sink(
        "localfile", name="right", path=str(tmp_path / "right")
    )
    flow.run(checkpoint=tmp_path / "state", spark=spark)
    left, right = (
        sorted(records(tmp_path / side), key=lambda order: order["id"])
        for side in ("left", "right")
    )
    assert len(left) == 500
    assert left == right


def fails_on_sevens(order):
    if order["id"] % 100 == 7:
        raise ValueError("a seven")
    return order


def mended(order):
    return order


def test_a_function_that_fails_on_some_records_makes_exactly_that_many_dead_letters(
    spark, tmp_path
):
    from penstock.spark.deadletters import DeadLetters
    from penstock.spark.replay import replay

    def flow(function):
        return (
            orders()
            .map(function, schema=ORDERS, name="enrich")
            .sink("localfile", path=str(tmp_path / "out"))
        )

    handle = flow(fails_on_sevens).run(checkpoint=tmp_path / "state", spark=spark)
    letters = DeadLetters(handle.checkpoint.dead_letters)
    table = letters.table()
    assert table.num_rows == 10
    assert len(records(tmp_path / "out")) == 990
    first = letters.show(table["letter"][0].as_py())
    assert first["node"] == "enrich"
    assert first["kind"] == "ValueError"
    assert "a seven" in first["message"]
    assert "fails_on_sevens" in first["traceback"]
    assert json.loads(first["original"])["id"] % 100 == 7
    assert first["stamp"]["origin"] == "generator-7"

    still = replay(flow(fails_on_sevens).graph, tmp_path / "state", spark=spark)
    assert still == {"replayed": 10, "failed": 10}
    done = replay(flow(mended).graph, tmp_path / "state", spark=spark)
    assert done == {"replayed": 10, "failed": 0}
    assert letters.table().num_rows == 0
    assert sorted(order["id"] for order in records(tmp_path / "out")) == list(range(1000))


def test_a_replay_that_was_killed_is_finished_before_newer_letters_are_replayed(
    spark, tmp_path, monkeypatch
):
    from penstock.spark.deadletters import DeadLetters
    from penstock.spark.replay import begun, replay

    def flow(function, rows):
        source = pen.pipeline("orders").source("generator", rows=rows, seed=7)
        decoded = source.decode("json", schema=ORDERS)
        mapped = decoded.map(function, schema=ORDERS, name="enrich")
        return mapped.sink("localfile", path=str(tmp_path / "out"))

    handle = flow(fails_on_sevens, 200).run(checkpoint=tmp_path / "state", spark=spark)
    letters = DeadLetters(handle.checkpoint.dead_letters)
    assert letters.table().num_rows == 2

    def killed(self, name, names):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DeadLetters, "settle", killed)
        with pytest.raises(KeyboardInterrupt):
            replay(flow(mended, 200).graph, f"file://{tmp_path}/state", spark=spark)
    assert len(begun(letters)) == 1
    assert begun(letters, "another node") == []

    flow(fails_on_sevens, 400).run(checkpoint=tmp_path / "state", spark=spark)
    assert letters.table().num_rows == 4
    done = replay(flow(mended, 400).graph, tmp_path / "state", spark=spark)
    assert done == {"replayed": 4, "failed": 0}
    assert begun(letters) == []
    assert letters.table().num_rows == 0
    assert sorted(order["id"] for order in records(tmp_path / "out")) == list(range(400))


def test_a_replay_of_a_batch_by_another_key_is_refused(spark, tmp_path, monkeypatch):
    plans = []
    real = Writing._layout

    def looked_at(self, frame):
        plans.append(frame._jdf.queryExecution().executedPlan().toString())
        return real(self, frame)

    monkeypatch.setattr(Writing, "_layout", looked_at)

    def flow(key):
        keyed = orders().key_by(key)
        return keyed.sink("localfile", path=str(tmp_path / "out"))

    def killed(name, **facts):
        if name == "tasks-written":
            raise ConnectionAbortedError(name)

    with monkeypatch.context() as patch:
        patch.setattr("penstock.spark.drain.points.reached", killed)
        with pytest.raises(PenstockError, match="tasks-written"):
            flow("customer").run(checkpoint=tmp_path / "state", spark=spark)
    with pytest.raises(LayoutError, match="begun with another layout") as refused:
        flow("id").run(checkpoint=tmp_path / "state", spark=spark)
    assert "key_by customer" in str(refused.value)
    flow("customer").run(checkpoint=tmp_path / "state", spark=spark)
    assert sorted(order["id"] for order in records(tmp_path / "out")) == list(range(1000))

    # Adaptive execution could change the number of tasks behind the logged layout.
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    assert len(plans) >= 3
    for plan in plans:
        assert "hashpartitioning(" in plan
        assert "AdaptiveSparkPlan" not in plan


def test_records_that_cannot_be_decoded_become_dead_letters_with_their_bytes(spark, tmp_path):
    from penstock.spark.deadletters import DeadLetters

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"id": 1}\nnot json\n{"id": 3}\n')
    handle = (
        pen.pipeline("bad")
        .source("localfile", path=str(tmp_path / "in"))
        .bounded()
        .decode("json", schema="id long")
        .sink("localfile", path=str(tmp_path / "out"))
        .run(checkpoint=tmp_path / "state", spark=spark)
    )
    [letter] = DeadLetters(handle.checkpoint.dead_letters).table().to_pylist()
    assert letter["original"] == b"not json"
    assert [order["id"] for order in records(tmp_path / "out")] == [1, 3]


def test_a_function_that_must_not_fail_stops_the_pipeline_with_its_words(spark, tmp_path):
    flow = (
        orders()
        .on_error("stop")
        .map(fails_on_sevens, schema=ORDERS, name="enrich")
        .sink("localfile", path=str(tmp_path / "out"))
    )
    with pytest.raises(PenstockError, match="a seven") as caught:
        flow.run(checkpoint=tmp_path / "state", spark=spark)
    assert "enrich" in str(caught.value)
    assert caught.value.exit_code == 4
    assert not [p for p in (tmp_path / "out").glob("*") if p.name[0] not in "._"]


def test_several_sources_merge_and_branch_into_several_sinks(spark, tmp_path):
    first = orders("graph", rows=100)
    second = (
        pen.pipeline("graph")
        .source("generator", name="other", rows=50, seed=8)
        .decode("json", name="decode-other", schema=ORDERS)
    )
    merged = first.merge(second)
    big, small = merged.branch(lambda order: order["total"] > 250)
    flow = big.sink("localfile", name="large", path=str(tmp_path / "large")).also(
        small.sink("localfile", name="little", path=str(tmp_path / "little"))
    )
    flow.run(checkpoint=tmp_path / "state", spark=spark)
    large, little = records(tmp_path / "large"), records(tmp_path / "little")
    assert all(order["total"] > 250 for order in large)
    assert all(order["total"] <= 250 for order in little)
    assert len(large) + len(little) == 150


def test_an_unbounded_pipeline_stops_after_its_batch_and_goes_on_later(spark, tmp_path):
    def start():
        flow = (
            pen.pipeline("endless")
            .source("generator", rate=5000)
            .limits(max_rows=500)
            .sink("localfile", path=str(tmp_path / "out"))
        )
        return flow.run(checkpoint=tmp_path / "state", spark=spark)

    for _ in range(2):
        handle = start()
        begun = len(records(tmp_path / "out")) if (tmp_path / "out").exists() else 0
        until(
            lambda handle=handle: handle.counts().get("localfile"),
            within=60,
            why="a batch is written",
        )
        handle.stop()
        assert not handle.running
        ids = [order["id"] for order in records(tmp_path / "out")]
        assert len(ids) > begun
        assert sorted(ids) == list(range(len(ids)))
    offsets, commits = (
        {p.name for p in (tmp_path / "state" / kind).iterdir() if p.name.isdigit()}
        for kind in ("offsets", "commits")
    )
    assert len(offsets - commits) <= 1


def test_standard_output_on_the_driver_keeps_the_sources_order(spark, tmp_path, capsys):
    (
        pen.pipeline("print")
        .source("generator", rows=200, format="text", parallelism=4)
        .sink("stdout", on="driver")
        .run(spark=spark)
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"record {n}" for n in range(200)]


def test_an_unbounded_pipeline_without_a_checkpoint_is_refused(spark):
    flow = pen.pipeline("endless").source("generator", rate=10).sink("stdout")
    with pytest.raises(DeclareError, match="needs a checkpoint"):
        flow.run(spark=spark)


def test_a_checkpoint_of_another_pipeline_is_refused(spark, tmp_path):
    orders("one", rows=10).sink("localfile", path=str(tmp_path / "out")).run(
        checkpoint=tmp_path / "state", spark=spark
    )
    other = orders("two", rows=10).sink("localfile", path=str(tmp_path / "out"))
    with pytest.raises(RunError, match="belongs to another pipeline"):
        other.run(checkpoint=tmp_path / "state", spark=spark)


def test_an_expression_that_fails_on_a_record_says_what_to_write_instead(spark, tmp_path):
    flow = orders(rows=10).where("cast(customer as long) > 1").sink("stdout", limit=0)
    with pytest.raises(RunError, match="a Spark expression failed on a record") as caught:
        flow.run(spark=spark)
    assert "CAST_INVALID_INPUT" in str(caught.value)
    assert "customer-" in str(caught.value)
    assert "try_cast" in caught.value.fix
