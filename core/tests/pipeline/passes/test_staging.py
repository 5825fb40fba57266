"""Which sinks find their batch on disk."""

from __future__ import annotations

import pytest

import penstock as pen
from core.tests.pipeline import functions as fn
from penstock.contracts.errors import GraphError
from penstock.pipeline.plan import Plan


def line() -> pen.Flow:
    return pen.pipeline("p").source("generator", rows=10).decode("json", schema="id long")


def staged(flow: pen.Flow) -> set[str]:
    plan: Plan = flow.analyse()
    return set(plan.staged)


def test_a_function_alone_needs_no_stage_since_its_records_stay_in_their_task() -> None:
    assert staged(line().map(fn.enrich).sink("by-task")) == set()
    assert staged(line().map(fn.enrich).sink("by-task", parallelism=1)) == set()


@pytest.mark.parametrize("step", ["map", "filter", "flat_map", "map_batches", "concurrent_map"])
def test_a_function_before_a_split_has_batches_staged_unless_it_says_otherwise(step: str) -> None:
    def flow(**options: object) -> pen.Flow:
        return line().step(step, fn.enrich, **options).key_by("id").sink("by-task")

    assert staged(flow()) == {"by-task"}
    assert "enrich may give another result on a replay" in flow().explain()
    assert staged(flow(deterministic=True)) == set()


@pytest.mark.parametrize(
    ("step", "chance", "plain"),
    [("where", "rand() < 0.5", "id < 5"), ("select", "uuid() AS id", "id + 1 AS id")],
)
def test_an_expression_of_chance_before_a_split_has_batches_staged(
    step: str, chance: str, plain: str
) -> None:
    def flow(text: str) -> pen.Flow:
        given = [text] if step == "select" else text
        keyed = line().step(step, given, name="asked").key_by("id")
        return keyed.sink("by-task")

    assert staged(flow(chance)) == {"by-task"}
    assert "asked may give another result on a replay" in flow(chance).explain()
    assert staged(flow(plain)) == set()


def test_a_split_before_the_function_is_harmless() -> None:
    flow = line().key_by("id").map(fn.enrich, parallelism=4)
    assert staged(flow.sink("by-task", parallelism=4)) == set()


def test_sinks_that_do_not_count_in_tasks_need_no_stage() -> None:
    flow = line().map(fn.enrich).key_by("id")
    assert staged(flow.sink("once").sink("stdout")) == set()


def test_what_spark_lays_out_is_staged_for_sinks_that_keep_count() -> None:
    stream = pen.source("spark", format="rate", stream=True)
    assert staged(stream.sink("by-task")) == {"by-task"}
    assert staged(stream.sink("once")) == {"once"}
    assert staged(stream.sink("stdout")) == set()
    once = pen.source("spark", format="parquet", path="in")
    assert staged(once.sink("stdout")) == {"stdout"}


def test_what_a_fork_has_staged_is_not_staged_again() -> None:
    forked = line().map(fn.enrich).key_by("id").where("true")
    flow = forked.sink("by-task", name="one").map(fn.keep, deterministic=True)
    assert staged(flow.sink("by-task", name="two")) == set()
    again = forked.sink("by-task", name="one").map(fn.keep).key_by("id")
    assert staged(again.sink("by-task", name="two")) == {"two"}


def untouched(frame: object) -> object:
    return frame


def test_what_a_function_over_a_frame_reads_twice_is_staged_before_it() -> None:
    plan = line().map(fn.enrich).where("true").apply(untouched).sink("stdout").analyse()
    assert plan.shared == {"where"}
    assert [s.stages for s in plan.segments if s.runs == "spark"] == [("where",), ("untouched",)]
    why = "where: batches are staged, untouched reads twice what enrich may give otherwise"
    assert any(why in note for note in plan.notes)


def test_nothing_is_staged_before_it_where_a_second_reading_gives_the_same() -> None:
    flow = line().map(fn.enrich, deterministic=True).where("true").apply(untouched)
    assert flow.sink("stdout").analyse().shared == frozenset()


def test_nor_where_nothing_can_have_failed() -> None:
    rows = pen.source("spark", format="parquet", path="in").where("rand() < 0.5")
    assert rows.apply(untouched).sink("stdout").analyse().shared == frozenset()


def test_what_is_staged_once_is_not_staged_for_the_next_function_over_a_frame() -> None:
    flow = line().map(fn.enrich).where("true").apply(untouched, deterministic=True)
    assert flow.apply(untouched).sink("stdout").analyse().shared == {"where"}
    again = line().map(fn.enrich).where("true").apply(untouched)
    again = again.map(fn.keep, deterministic=True).apply(untouched)
    assert again.sink("stdout").analyse().shared == {"where", "keep"}


def test_a_record_that_could_be_lost_before_state_is_refused() -> None:
    def flow(**options: object) -> pen.Flow:
        mapped = line().map(fn.enrich, **options)
        return mapped.apply(untouched, schema="id long").deduplicate("id").sink("stdout")

    with pytest.raises(GraphError, match="untouched reads twice what enrich may give") as refused:
        flow().analyse()
    assert "put untouched after deduplicate" in str(refused.value)
    flow(deterministic=True).analyse()


def test_what_deduplicate_lays_out_by_chance_is_staged_for_sinks_that_count_in_tasks() -> None:
    flow = line().deduplicate("id")
    assert staged(flow.sink("by-task")) == {"by-task"}
    assert staged(flow.sink("once").sink("stdout")) == set()


def test_a_fork_on_the_stream_itself_settles_nothing() -> None:
    forked = line().map(fn.enrich)
    one = forked.deduplicate("id", name="a").sink("by-task", name="one")
    two = forked.deduplicate("id", name="b").sink("by-task", name="two")
    plan = pen.pipeline("p", one, two).analyse()
    assert plan.shared == frozenset()
    assert plan.staged == {"one", "two"}
    assert any("enrich may give another result" in note for note in plan.notes)
