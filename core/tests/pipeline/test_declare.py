"""The fluent form and `>>`: the same immutable graph, and every misuse with its message."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import penstock as pen
from core.tests.pipeline.functions import enrich, is_big
from penstock.contracts.errors import DeclareError, GraphError, OptionError
from penstock.pipeline.graph import Args, Graph, Node, Policy


def orders() -> pen.Flow:
    return pen.pipeline("orders").source("generator", rows=10)


def test_the_fluent_form_and_the_arrows_make_equal_pipelines() -> None:
    fluent = orders().decode("json", schema="id long").where("id > 3").map(enrich).sink("stdout")
    arrows = pen.pipeline(
        "orders",
        pen.source("generator", rows=10)
        >> pen.step("decode", "json", schema="id long")
        >> pen.step("where", "id > 3")
        >> enrich
        >> pen.sink("stdout"),
    )
    assert fluent == arrows
    assert fluent.graph == arrows.graph


def test_a_declared_pipeline_is_plain_data() -> None:
    flow = orders().map(enrich, parallelism=4, name="better").sink("stdout", on="driver")
    assert pickle.loads(pickle.dumps(flow.graph)) == flow.graph
    node = flow.graph["better"]
    assert (node.inputs, node.parallelism) == (("generator",), 4)


def test_arguments_of_a_node_do_not_change() -> None:
    node = orders().graph["generator"]
    with pytest.raises(TypeError, match="do not change"):
        node.args["rows"] = 5
    with pytest.raises(AttributeError):
        node.name = "other"  # type: ignore[misc]


def test_each_call_leaves_the_flow_it_was_called_on_as_it_was() -> None:
    start = orders()
    start.map(enrich)
    assert [n.name for n in start.graph] == ["generator"]


def test_names_are_made_from_functions_and_numbered_where_taken() -> None:
    flow = orders().map(enrich).map(enrich).map(lambda r: r).sink("stdout").sink("stdout")
    names = [n.name for n in flow.graph]
    assert names == ["generator", "enrich", "enrich-2", "map", "stdout", "stdout-2"]


def test_two_sinks_after_each_other_read_the_same_node() -> None:
    flow = orders().sink("stdout").sink("once")
    assert [n.inputs for n in flow.graph.of_kind("sink")] == [("generator",), ("generator",)]


def test_merge_joins_several_sources() -> None:
    flow = pen.source("generator", name="a").merge(
        pen.source("generator", name="b"), pen.source("generator", name="c")
    )
    assert flow.graph["merge"].inputs == ("a", "b", "c")


def test_a_list_left_of_an_arrow_is_merged_and_right_of_it_fanned_out() -> None:
    one, other = pen.source("generator", name="a"), pen.source("generator", name="b")
    merged = [one, other] >> pen.step("where", "true")
    assert merged.graph["merge"].inputs == ("a", "b")
    fanned = merged >> [pen.sink("stdout"), pen.sink("once")]
    assert [n.inputs for n in fanned.graph.of_kind("sink")] == [("where",), ("where",)]


def test_made_up_names_give_way_when_flows_are_joined() -> None:
    yes, no = orders().branch(is_big)
    flow = pen.pipeline("both", yes.sink("stdout"), no.sink("stdout"))
    assert [n.name for n in flow.graph] == [
        "generator",
        "branch",
        "stdout",
        "branch-else",
        "stdout-2",
    ]
    assert flow.graph["stdout-2"].inputs == ("branch-else",)


def test_a_flow_may_fork_more_than_once() -> None:
    yes, _ = orders().branch(is_big)
    again, other = yes.branch("id > 3")
    flow = again.sink("stdout").also(other.sink("once"))
    names = [n.name for n in flow.graph.of_kind("step")]
    assert names == ["branch", "branch-2", "branch-else"]
    assert flow.graph["branch-else"].inputs == ("branch",)


def test_given_names_do_not_give_way() -> None:
    yes, no = orders().branch(is_big)
    with pytest.raises(GraphError, match="two nodes are named out"):
        yes.sink("stdout", name="out").also(no.sink("stdout", name="out"))


def test_mirror_sends_the_same_records_to_every_target() -> None:
    flow = orders().mirror(lambda f: f.where("true").sink("once"), lambda f: f.sink("stdout"))
    assert [n.name for n in flow.graph.consumers("mirror")] == ["where", "stdout"]


def test_secrets_never_print_and_references_stay_as_written() -> None:
    flow = pen.source("amqp-queue", queue="q", password="canary", uri="${env:URI}")
    assert "canary" not in repr(flow.graph)
    assert "canary" not in str(flow.graph["amqp-queue"].args)
    assert flow.graph["amqp-queue"].args["uri"] == "${env:URI}"


def test_a_column_that_is_named_like_a_secret_is_a_column() -> None:
    flow = orders().rename({"token": "password"})
    assert flow.graph["rename"].args["columns"] == {"token": "password"}
    assert pickle.loads(pickle.dumps(flow.graph)) == flow.graph


def test_settings_hold_for_the_whole_pipeline() -> None:
    settings = (
        orders()
        .guarantee("exactly-once")
        .on_error("dead-letter", sink="once", retries=5, backoff="200 ms")
        .limits(max_rows=100, max_bytes="8 MiB", max_wait="5 s")
        .bounded()
        .graph.settings
    )
    assert settings.guarantee == "exactly-once"
    assert settings.on_error == Policy("dead-letter", retries=5, backoff=0.2)
    assert settings.dead_letters is not None
    assert settings.dead_letters.what == "once"
    assert (settings.max_rows, settings.max_bytes, settings.max_wait) == (100, 8 * 2**20, 5.0)
    assert settings.bounded is True


def test_a_node_may_have_a_policy_of_its_own() -> None:
    flow = orders().map(enrich, on_error="skip").map(enrich, on_error={"retries": 9})
    assert flow.graph["enrich"].on_error == Policy("skip")
    assert flow.graph["enrich-2"].on_error == Policy("dead-letter", retries=9)


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: pen.pipeline("x").where("true"), "where has nothing to read"),
        (lambda: pen.pipeline("x").sink("stdout"), "stdout has nothing to read"),
        (lambda: orders().source("generator"), "a source begins a line"),
        (lambda: orders().merge(), "merge takes other flows"),
        (lambda: orders().merge("other"), "only a flow can be joined"),
        (lambda: orders().map("not a path"), "a function is wanted"),
        (lambda: orders().map(3), "a function is wanted"),
        (lambda: orders() >> 3, "cannot stand right of >>"),
        (lambda: orders().guarantee("exactly_once"), "no such guarantee"),
        (lambda: orders().on_error("ignore"), "no way to handle an error"),
        (lambda: orders().on_error("skip", retrys=1), "an error policy has no retrys"),
        (lambda: orders().map(enrich, parallelism=0), "a count of tasks"),
        (lambda: orders().map(enrich, parallelism="many"), "a count of tasks"),
        (lambda: orders().sink("stdout", on="moon"), "no such place"),
        (lambda: orders().limits(max_rows=0), "max_rows must be above 0"),
        (lambda: orders().limits(max_bytes="lots"), "max_bytes has the wrong type"),
        (lambda: pen.pipeline("a/b"), "a name is a short text"),
        (lambda: orders().step("map", enrich, function=enrich), "given twice"),
        (lambda: orders().decode(None), "a coder is wanted"),
    ],
)
def test_a_misuse_is_refused_where_it_is_written(declare: Any, said: str) -> None:
    with pytest.raises(DeclareError, match=said):
        declare()


def test_suggestions_come_with_the_refusal() -> None:
    with pytest.raises(DeclareError) as refused:
        orders().guarantee("exactly_once")  # type: ignore[arg-type]
    assert refused.value.fix == "did you mean 'exactly-once'?"


def test_flows_with_different_settings_are_not_joined_silently() -> None:
    one = orders().limits(max_rows=1)
    with pytest.raises(DeclareError, match="different settings"):
        one.merge(pen.source("generator", name="b").limits(max_rows=2))


def test_a_wrong_unit_is_an_option_error_with_both_sides() -> None:
    with pytest.raises(OptionError) as refused:
        orders().limits(max_wait="5 parsecs")
    assert "duration" in str(refused.value)


def test_nodes_compare_by_value() -> None:
    one = Node("a", "source", "x", Args({"l": [1, {"b": (2,)}]}))
    other = Node("a", "source", "x", Args({"l": (1, {"b": [2]})}))
    assert one == other
    assert Graph("p", (one,)) == Graph("p", (other,))
