"""Split and merge-sort where parallelism, key or place changes, and only there."""

from __future__ import annotations

import penstock as pen
from core.tests.pipeline import functions as fn
from penstock.pipeline.passes.network import network
from penstock.pipeline.passes.resolve import resolve
from penstock.pipeline.plan import MergeSort, Split, Stage


def laid(flow: pen.Flow) -> dict[str, Stage]:
    return {stage.name: stage for stage in network(resolve(flow.graph))}


def names(flow: pen.Flow) -> list[str]:
    return list(laid(flow))


def many() -> pen.Flow:
    return pen.pipeline("p").source("generator", rows=10)


def one() -> pen.Flow:
    return pen.pipeline("p").source("onefile")


def queue() -> pen.Flow:
    return pen.pipeline("p").source("amqp-queue", queue="q")


def test_a_source_in_many_parts_needs_no_network() -> None:
    assert names(many().map(fn.enrich).sink("once")) == ["generator", "enrich", "once"]


def test_steps_run_in_as_many_tasks_as_a_source_that_was_told_how_many() -> None:
    four = pen.pipeline("p").source("generator", rows=10, parallelism=4)
    found = laid(four.map(fn.enrich).sink("once"))
    assert list(found) == ["generator", "enrich", "once"]
    assert [stage.parallelism for stage in found.values()] == [4, 4, 4]
    merged = four.merge(pen.source("generator", rows=1, name="b", parallelism=3))
    assert names(merged.map(fn.enrich).sink("once")) == [
        "generator",
        "b",
        "merge",
        "enrich",
        "once",
    ]


def test_a_source_in_one_place_is_split_before_its_first_step() -> None:
    found = laid(one().map(fn.enrich).filter(fn.enrich).sink("once"))
    assert list(found) == ["onefile", "split", "enrich", "enrich-2", "once"]
    assert found["split"].work == Split(None)
    assert found["enrich"].inputs == ("split",)


def test_a_source_in_one_place_right_before_a_sink_keeps_its_order() -> None:
    assert names(one().sink("once")) == ["onefile", "once"]


def test_a_step_in_one_task_needs_no_split() -> None:
    assert names(one().map(fn.enrich, parallelism=1).sink("once")) == ["onefile", "enrich", "once"]


def test_a_declared_parallelism_is_split_to() -> None:
    found = laid(many().map(fn.enrich, parallelism=4).filter(fn.enrich).sink("once"))
    assert list(found) == ["generator", "split", "enrich", "enrich-2", "once"]
    assert found["split"].work == Split(4)
    assert [found[n].parallelism for n in ("enrich", "enrich-2", "once")] == [4, 4, 4]


def test_a_sink_on_the_driver_gets_a_merge_sort() -> None:
    found = laid(many().map(fn.enrich).sink("stdout", on="driver"))
    assert list(found) == ["generator", "enrich", "merge-sort", "stdout"]
    assert found["merge-sort"].work == MergeSort("driver")
    assert found["merge-sort"].node == "stdout"


def test_a_step_in_one_task_after_many_gets_a_merge_sort() -> None:
    found = laid(many().map(fn.enrich, parallelism=1).sink("once"))
    assert list(found) == ["generator", "merge-sort", "enrich", "once"]
    assert found["merge-sort"].work == MergeSort(None)


def test_a_key_is_split_by_once_and_kept() -> None:
    found = laid(many().key_by("value").map(fn.enrich).filter(fn.enrich).sink("once"))
    assert list(found) == ["generator", "key_by", "split", "enrich", "enrich-2", "once"]
    assert found["split"].work == Split(None, by_key=True)


def test_another_parallelism_after_a_key_is_split_by_key_again() -> None:
    found = laid(many().key_by("value").map(fn.enrich).map(fn.enrich, parallelism=2).sink("once"))
    assert found["split-2"].work == Split(2, by_key=True)


def test_a_key_before_one_place_needs_no_split() -> None:
    assert names(many().key_by("value").sink("stdout", on="driver")) == [
        "generator",
        "key_by",
        "merge-sort",
        "stdout",
    ]


def test_a_key_is_split_by_after_the_step_that_scatters() -> None:
    assert names(many().key_by("value").deduplicate().map(fn.enrich).sink("once")) == [
        "generator",
        "key_by",
        "deduplicate",
        "split",
        "enrich",
        "once",
    ]


def test_nothing_before_a_step_that_keeps_state_is_sorted() -> None:
    flow = many().key_by("value").where("true").map(fn.enrich, parallelism=1).deduplicate()
    found = laid(flow.map(fn.enrich).sink("once"))
    assert list(found) == [
        "generator",
        "key_by",
        "where",
        "split",
        "enrich",
        "deduplicate",
        "split-2",
        "enrich-2",
        "once",
    ]
    assert found["split"].work == Split(1)
    assert found["split-2"].work == Split(None, by_key=True)


def test_a_new_key_needs_no_split_by_the_old_one() -> None:
    assert names(many().key_by("value").key_by("event_time").sink("once")) == [
        "generator",
        "key_by",
        "key_by-2",
        "split",
        "once",
    ]


def test_readers_of_one_node_share_its_network_stage() -> None:
    flow = queue().mirror(lambda f: f.map(fn.enrich).sink("once"))
    assert names(flow.sink("stdout")).count("split") == 1
    both = one().map(fn.enrich).sink("once", name="a").also(one().filter(fn.is_big).sink("once"))
    found = laid(both)
    assert [found[n].inputs for n in ("enrich", "is_big")] == [("split",), ("split",)]


def test_a_queue_and_the_place_of_its_output_are_told_apart() -> None:
    assert names(queue().sink("stdout", on="driver")) == ["amqp-queue", "merge-sort", "stdout"]


def test_sources_that_merge_run_everywhere() -> None:
    flow = one().merge(pen.source("onefile", name="other", path="b")).map(fn.enrich).sink("once")
    found = laid(flow)
    assert list(found) == ["onefile", "other", "split", "split-2", "merge", "enrich", "once"]
    assert found["merge"].inputs == ("split", "split-2")
