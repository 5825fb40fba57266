"""A coder named at a source or a sink is a step of its own."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from penstock.contracts.errors import no_coder
from penstock.pipeline.ends import SINKS, SOURCES
from penstock.pipeline.graph import Args, Graph, Node
from penstock.pipeline.joining import fresh

_PREFIX = "coder."
_WHOLE = "coder_options"


def unfold(graph: Graph) -> Graph:
    """The same graph with a decode after each source and an encode before each sink that asks.

    Raises:
        OptionError: options of a coder, and no coder.
    """
    taken = {node.name for node in graph}
    nodes: list[Node] = []
    instead: dict[str, str] = {}
    for node in graph:
        given = _coding(node)
        if given is None:
            nodes.append(node)
            continue
        what = "decode" if node.kind == "source" else "encode"
        name = fresh(f"{node.name}-{what}", taken)
        taken.add(name)
        bare = evolve(node, args=Args({k: v for k, v in node.args.items() if not _its(k)}))
        step = Node(name, "step", what, given, on_error=node.on_error)
        if node.kind == "source":
            nodes += [bare, evolve(step, inputs=(node.name,))]
            instead[node.name] = name
        else:
            nodes += [evolve(step, inputs=node.inputs), evolve(bare, inputs=(name,))]
    if len(nodes) == len(graph.nodes):
        return graph
    moved = (_reading(node, instead) for node in nodes)
    return evolve(graph, nodes=tuple(moved))


def _reading(node: Node, instead: dict[str, str]) -> Node:
    inputs = tuple(
        name if instead.get(name) == node.name else instead.get(name, name) for name in node.inputs
    )
    return evolve(node, inputs=inputs)


def _coding(node: Node) -> Args | None:
    """The arguments of the step; None where no coder is named."""
    own = SOURCES if node.kind == "source" else SINKS
    if node.kind == "step" or node.what in own:
        return None
    options: dict[str, Any] = dict(node.args.get(_WHOLE) or {})
    options |= {k[len(_PREFIX) :]: v for k, v in node.args.items() if k.startswith(_PREFIX)}
    coder = node.args.get("coder")
    if coder is not None:
        return Args({"coder": coder, **({"options": options} if options else {})})
    if options:
        raise no_coder(options, node.name)
    return None


def _its(name: str) -> bool:
    return name in ("coder", _WHOLE) or name.startswith(_PREFIX)
