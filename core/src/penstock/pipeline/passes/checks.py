"""Whether the nodes of a declared graph hang together."""

from __future__ import annotations

from collections import Counter

from penstock.contracts.errors import GraphError, did_you_mean
from penstock.pipeline.graph import Graph, Node
from penstock.pipeline.steps.catalog import STEPS


def check(graph: Graph) -> None:
    """Refuse a graph that cannot run whatever is installed.

    Raises:
        GraphError: a duplicate name, a dangling node, a cycle, an input too many.
    """
    _names(graph)
    known = {node.name: node for node in graph}
    for node in graph:
        _inputs(graph, node, known)
    _dangling(graph)
    in_order(graph)


def _names(graph: Graph) -> None:
    twice = [name for name, count in Counter(n.name for n in graph).items() if count > 1]
    if twice:
        raise GraphError(
            f"two nodes are named {twice[0]}",
            who=graph.name,
            fix="give each node a name of its own",
        )
    for kind in ("source", "sink"):
        if not graph.of_kind(kind):
            raise GraphError(
                f"the pipeline has no {kind}",
                who=graph.name,
                expected="at least one source and one sink",
                got=", ".join(n.name for n in graph) or "no nodes",
            )


def _inputs(graph: Graph, node: Node, known: dict[str, Node]) -> None:
    if node.kind == "source" and node.inputs:
        raise GraphError(
            f"the source {node.name} reads {', '.join(node.inputs)}",
            who=graph.name,
            expected="a source begins a line",
            fix="remove its from, or make it a step",
        )
    if node.kind != "source" and not node.inputs:
        raise GraphError(
            f"the {node.kind} {node.name} reads nothing",
            who=graph.name,
            fix="name the node it reads (from: ...)",
        )
    for name in node.inputs:
        if name not in known:
            raise GraphError(
                f"{node.name} reads {name}, which does not exist",
                who=graph.name,
                expected="one of " + ", ".join(sorted(set(known) - {node.name})),
                fix=did_you_mean(name, known),
            )
        if known[name].kind == "sink":
            raise GraphError(
                f"{node.name} reads {name}, but nothing comes out of a sink",
                who=graph.name,
                fix=f"let {node.name} read what {name} reads",
            )
    several = node.what in STEPS and STEPS[node.what].several and node.kind == "step"
    if len(node.inputs) > 1 and not several:
        raise GraphError(
            f"{node.name} reads {len(node.inputs)} nodes: {', '.join(node.inputs)}",
            who=graph.name,
            expected="one; only merge takes several",
            fix="put a merge before it",
        )
    if node.on == "driver" and node.kind != "sink":
        raise GraphError(
            f"the {node.kind} {node.name} cannot run on the driver",
            who=graph.name,
            expected="only a sink has a place",
            fix="use parallelism=1 to have it in one task",
        )


def _dangling(graph: Graph) -> None:
    read = {name for node in graph for name in node.inputs}
    for node in graph:
        if node.kind != "sink" and node.name not in read:
            raise GraphError(
                f"nothing reads the {node.kind} {node.name}",
                who=graph.name,
                expected="every node leads to a sink",
                fix=f"add a sink after {node.name}, or remove it",
            )


def in_order(graph: Graph) -> list[Node]:
    """The nodes, each after those it reads; otherwise as declared.

    Raises:
        GraphError: they read each other in a circle.
    """
    done: set[str] = set()
    waiting = list(graph)
    out: list[Node] = []
    while waiting:
        ready = [node for node in waiting if done.issuperset(node.inputs)]
        if not ready:
            circle = _circle({node.name: node.inputs for node in waiting})
            raise GraphError(
                f"the nodes {' -> '.join(circle)} read each other in a circle",
                who=graph.name,
                fix="cut the circle; write back to a topic or queue and read that",
            )
        out += ready
        done.update(node.name for node in ready)
        waiting = [node for node in waiting if node.name not in done]
    return out


def _circle(inputs: dict[str, tuple[str, ...]]) -> list[str]:
    path = [next(iter(inputs))]
    while path[-1] not in path[:-1]:
        path.append(next(name for name in inputs[path[-1]] if name in inputs))
    return path[path.index(path[-1]) :][::-1]
