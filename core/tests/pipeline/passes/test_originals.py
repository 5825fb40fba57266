"""Where records carry their original bytes on, and where nobody pays for it."""

from __future__ import annotations

import penstock as pen
from core.tests.pipeline import functions as fn
from penstock.contracts import UNDECODED


def raw() -> pen.Flow:
    return pen.pipeline("p").source("generator", name="in", rows=10)


def line() -> pen.Flow:
    return raw().decode("json", schema="id long", name="read")


def carried(flow: pen.Flow) -> set[str]:
    return set(flow.analyse().carried)


def test_bytes_are_carried_over_what_spark_runs_to_a_step_that_may_fail() -> None:
    flow = line().where("id > 3").map(fn.enrich, name="last").sink("stdout")
    assert carried(flow) == {"read"}


def test_the_last_python_step_before_spark_carries_them_whatever_came_before_it() -> None:
    flow = line().map(fn.enrich, name="first").where("id > 3").map(fn.enrich, name="last")
    assert carried(flow.sink("stdout")) >= {"first"}
    assert "last" not in carried(flow.sink("stdout"))


def test_a_sink_that_may_refuse_needs_them_and_one_that_takes_all_does_not() -> None:
    assert carried(line().where("id > 3").sink("by-task")) == {"read"}
    assert carried(line().where("id > 3").sink("stdout")) == set()


def test_nobody_pays_where_no_dead_letter_can_come() -> None:
    flow = line().where("id > 3").map(fn.enrich)
    assert carried(flow.on_error("skip").sink("by-task")) == set()
    assert carried(flow.on_error("stop").sink("by-task")) == set()
    nodes = line().where("id > 3").map(fn.enrich, on_error="skip")
    assert carried(nodes.sink("by-task", on_error="stop")) == set()


def test_undecoded_bytes_are_their_own_original_while_spark_lets_them_be() -> None:
    asked = raw().where("length(value) > 3").deduplicate()
    assert "in" not in carried(asked.decode("json", schema="id long").sink("stdout"))
    changed = raw().apply(fn.keep, schema="value binary", name="changed")
    assert "in" in carried(changed.decode("json", schema="id long").sink("stdout"))


def test_what_is_encoded_again_is_not_the_original() -> None:
    flow = line().map(fn.enrich, name="fn").encode("json", name="write").where("true")
    assert "write" in carried(flow.sink("bytesink"))


def test_a_source_of_columns_has_no_bytes_to_carry() -> None:
    flow = pen.pipeline("p").source("onefile").where("number > 3").map(fn.enrich)
    assert carried(flow.sink("by-task")) == set()


def test_each_source_of_a_merge_is_asked_for_itself() -> None:
    left, right = line(), pen.pipeline("p").source("generator", name="right", rows=10)
    both = left.merge(right.decode("json", schema="id long", name="other"))
    assert carried(both.where("id > 1").map(fn.enrich).sink("stdout")) == {"read", "other"}


def test_the_bytes_lie_where_every_step_keeps_them() -> None:
    assert UNDECODED.field("_pen").type.get_field_index("original") >= 0
