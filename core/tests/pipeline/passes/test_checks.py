"""Graphs that hang together, and the sentences for those that do not."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as pen
from penstock.contracts.errors import GraphError
from penstock.pipeline.graph import Args, Graph, Node
from penstock.pipeline.passes.checks import check, in_order
from penstock.pipeline.passes.resolve import resolve

IN = Node("in", "source", "generator")
OUT = Node("out", "sink", "stdout", inputs=("in",))


def step(name: str, *inputs: str, what: str = "where") -> Node:
    return Node(name, "step", what, Args({"expression": "true"}), inputs)


def test_a_line_hangs_together() -> None:
    check(Graph("p", (IN, OUT)))


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ((), "the pipeline has no source"),
        ((IN,), "the pipeline has no sink"),
        ((OUT,), "the pipeline has no source"),
        ((IN, IN, OUT), "two nodes are named in"),
        ((IN, OUT, step("a", "in")), "nothing reads the step a"),
        ((IN, Node("b", "source", "generator"), OUT), "nothing reads the source b"),
        ((IN, step("a"), OUT), "the step a reads nothing"),
        ((IN, Node("out", "sink", "stdout")), "the sink out reads nothing"),
        ((IN, OUT, step("a", "inn")), "a reads inn, which does not exist"),
        ((IN, OUT, step("a", "out")), "nothing comes out of a sink"),
        ((Node("in", "source", "generator", inputs=("x",)), OUT), "the source in reads x"),
        ((IN, OUT, step("a", "in", "b"), step("b", "in")), "a reads 2 nodes: in, b"),
        (
            (IN, OUT, step("a", "in", "c", what="merge"), step("b", "a"), step("c", "b")),
            "the nodes a -> b -> c -> a read each other in a circle",
        ),
        (
            (IN, Node("a", "step", "where", inputs=("in",), on="driver"), OUT),
            "the step a cannot run on the driver",
        ),
    ],
)
def test_what_does_not_hang_together_is_refused(nodes: tuple[Node, ...], said: str) -> None:
    with pytest.raises(GraphError) as refused:
        check(Graph("p", nodes))
    assert said in str(refused.value)
    assert refused.value.who == "p"


def test_a_misspelt_input_comes_with_a_suggestion() -> None:
    with pytest.raises(GraphError) as refused:
        check(Graph("p", (IN, OUT, step("a", "inn"))))
    assert refused.value.fix == "did you mean 'in'?"


def test_nodes_come_after_what_they_read_whatever_their_order() -> None:
    nodes = (OUT, step("b", "a"), step("a", "in"), IN)
    assert [n.name for n in in_order(Graph("p", nodes))] == ["in", "out", "a", "b"]


@pytest.mark.parametrize("options", [{}, {"prefetch": 7}, {"password": "other"}])
def test_a_second_consumer_of_one_queue_is_refused(options: dict[str, Any]) -> None:
    one = pen.source("amqp-queue", queue="q", name="one")
    flow = one.merge(pen.source("amqp-queue", queue="q", name="two", **options)).sink("stdout")
    with pytest.raises(GraphError, match="one and two consume the same queue") as refused:
        resolve(flow.graph)
    assert "mirror" in str(refused.value.fix)


def test_two_queues_may_be_consumed_side_by_side() -> None:
    one = pen.source("amqp-queue", queue="q", name="one")
    flow = one.merge(pen.source("amqp-queue", queue="r", name="two")).sink("stdout")
    assert len(resolve(flow.graph)) == 4
