"""What runs together, and where."""

from __future__ import annotations

import penstock as pen
from core.tests.pipeline import functions as fn
from penstock.pipeline.plan import Plan, Segment


def line() -> pen.Flow:
    return pen.pipeline("p").source("generator", rows=10)


def cut(plan: Plan) -> list[tuple[str, tuple[str, ...]]]:
    return [(segment.runs, segment.stages) for segment in plan.segments]


def test_python_after_a_source_runs_in_its_reader() -> None:
    plan = line().map(fn.enrich).map_batches(fn.keep).filter(fn.is_big).sink("once").analyse()
    assert cut(plan) == [
        ("reader", ("generator", "enrich", "keep", "is_big")),
        ("writer", ("once",)),
    ]


def test_python_before_a_sink_runs_in_its_writer() -> None:
    plan = line().map(fn.enrich).where("true").map(fn.enrich).sink("once").analyse()
    assert cut(plan) == [
        ("reader", ("generator", "enrich")),
        ("spark", ("where",)),
        ("writer", ("enrich-2", "once")),
    ]


def test_python_between_sparks_stages_stays_there() -> None:
    plan = line().where("true").map(fn.enrich).where("true").sink("once").analyse()
    assert cut(plan) == [
        ("reader", ("generator",)),
        ("spark", ("where", "enrich", "where-2")),
        ("writer", ("once",)),
    ]
    assert [s.name for s in plan.chain(plan.segments[1])] == ["enrich"]


def test_a_fork_ends_a_reader() -> None:
    yes, no = line().map(fn.enrich).branch(fn.is_big)
    plan = yes.sink("once").also(no.sink("stdout")).analyse()
    assert cut(plan) == [
        ("reader", ("generator", "enrich")),
        ("writer", ("branch", "once")),
        ("writer", ("branch-else", "stdout")),
    ]
    assert [s.name for s in plan.readers_of(plan.segments[0])] == ["once", "stdout"]


def test_what_may_answer_differently_runs_in_writers_too() -> None:
    plan = line().where("true").map(fn.enrich, deterministic=False).map(fn.enrich).sink("once")
    assert cut(plan.analyse()) == [
        ("reader", ("generator",)),
        ("spark", ("where",)),
        ("writer", ("enrich", "enrich-2", "once")),
    ]


def test_a_queues_reader_deals_its_messages_out_itself() -> None:
    flow = pen.pipeline("p").source("amqp-queue", queue="q").map(fn.enrich).sink("once")
    assert cut(flow.analyse()) == [
        ("reader", ("amqp-queue", "split", "enrich")),
        ("writer", ("once",)),
    ]


def test_another_source_in_one_place_is_split_by_spark() -> None:
    flow = pen.pipeline("p").source("onefile").map(fn.enrich).sink("once")
    assert cut(flow.analyse()) == [
        ("reader", ("onefile",)),
        ("spark", ("split",)),
        ("writer", ("enrich", "once")),
    ]


def test_on_the_driver_python_runs_there_too() -> None:
    flow = line().sink("stdout", on="driver")
    assert cut(flow.analyse())[-1] == ("driver", ("stdout",))


def test_state_and_all_before_it_run_on_the_stream() -> None:
    plan = line().where("true").deduplicate().where("true").sink("once").analyse()
    streaming: dict[str, Segment] = {s.name: s for s in plan.segments if s.streaming}
    assert cut(plan) == [
        ("reader", ("generator",)),
        ("spark", ("where", "deduplicate")),
        ("spark", ("where-2",)),
        ("writer", ("once",)),
    ]
    assert list(streaming) == ["generator", "deduplicate"]


def test_what_spark_reads_is_spark_alone_and_what_it_writes_has_python_before_it() -> None:
    flow = pen.pipeline("p").source("spark", format="parquet").map(fn.enrich)
    plan = flow.sink("spark", format="parquet", path="o").analyse()
    assert cut(plan) == [("reader", ("spark",)), ("writer", ("enrich", "spark-2"))]
    assert plan["spark"].runs == "spark"


def test_a_merge_is_a_segment_that_reads_several() -> None:
    flow = line().merge(pen.source("generator", rows=1, name="b")).map(fn.enrich).sink("once")
    plan = flow.analyse()
    assert cut(plan) == [
        ("reader", ("generator",)),
        ("reader", ("b",)),
        ("spark", ("merge",)),
        ("writer", ("enrich", "once")),
    ]
    assert plan.segments[2].inputs == ("generator", "b")


def test_every_stage_is_in_one_segment() -> None:
    yes, no = line().key_by("value").branch("true")
    plan = yes.map(fn.enrich).sink("once").also(no.sink("stdout", on="driver")).analyse()
    members = [name for segment in plan.segments for name in segment.stages]
    assert sorted(members) == sorted(stage.name for stage in plan)
    assert all(stage.runs is not None for stage in plan)
