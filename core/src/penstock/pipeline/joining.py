"""Two graphs that share their beginnings, as one."""

from __future__ import annotations

from collections.abc import Set

from attrs import evolve

from penstock.contracts.errors import DeclareError, GraphError
from penstock.pipeline.graph import Graph, Node, Settings


def fresh(name: str, taken: Set[str]) -> str:
    """The name, with a number behind it if it is taken."""
    if name not in taken:
        return name
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"


def joined(one: Graph, other: Graph, auto: Set[str]) -> tuple[Graph, dict[str, str]]:
    """The nodes of both; equal nodes of one name are one node.

    A node of the second whose name was made up (`auto`) gives way to a different node of that
    name: it is renamed. The second value tells how.

    Raises:
        GraphError: two different nodes were given one name.
        DeclareError: both graphs have settings, and they differ.
    """
    present = {node.name: node for node in one}
    taken = set(present) | {node.name for node in other}
    renamed: dict[str, str] = {}
    added: list[Node] = []
    for node in other:
        moved = evolve(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
        found = present.get(node.name)
        if found is not None and found != moved:
            if node.name not in auto:
                raise GraphError(
                    f"two nodes are named {node.name}",
                    who=one.name,
                    got=f"{found.kind} {found.what} and {node.kind} {node.what}",
                    fix="give one of them another name=...",
                )
            moved = evolve(moved, name=fresh(node.name, taken))
            taken.add(moved.name)
            renamed[node.name] = moved.name
        if moved.name not in present:
            present[moved.name] = moved
            added.append(moved)
    settings = _settings(one, other)
    return evolve(one, nodes=(*one.nodes, *added), settings=settings), renamed


def _settings(one: Graph, other: Graph) -> Settings:
    if other.settings in (Settings(), one.settings):
        return one.settings
    if one.settings == Settings():
        return other.settings
    raise DeclareError(
        "two flows with different settings cannot be joined",
        who=one.name,
        fix="declare guarantee, on_error and limits once, on the whole pipeline",
    )
