"""Pipelines as YAML: read into the same graph as the fluent form makes, and written back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve

from penstock.contracts.errors import DeclareError, DocumentError, did_you_mean
from penstock.pipeline.arguments import default_name, end_args, policy, step_args
from penstock.pipeline.declare import Flow
from penstock.pipeline.graph import Args, End, Graph, Kind, Node, Policy, Settings
from penstock.pipeline.joining import fresh
from penstock.pipeline.loading import Listed, Marked, load, read
from penstock.pipeline.nodes import GUARANTEES, limits, made_node
from penstock.pipeline.steps.catalog import STEPS
from penstock.pipeline.writing import to_yaml

__all__ = ["from_yaml", "graph_of", "to_yaml"]

COMMON = ("name", "from", "parallelism", "on", "on_error")
SETTINGS = ("guarantee", "on_error", "dead_letters", "limits", "bounded")
TOP = ("name", "source", "steps", "sink", "sinks", "nodes", *SETTINGS)


def from_yaml(source: str | Path) -> Flow:
    """A pipeline from a file's path, or from a text of more than one line.

    Raises:
        DocumentError: it cannot be read or understood; `who` tells file, line and column.
    """
    if isinstance(source, str) and "\n" in source:
        graph, auto = _Reading("<text>").graph(load(source, "<text>"))
    else:
        path = Path(source)
        graph, auto = _Reading(str(path)).graph(load(read(path), str(path)))
    return Flow(graph, None, frozenset(auto))


def graph_of(source: str | Path) -> Graph:
    """The graph of a pipeline file or document."""
    return from_yaml(source).graph


class _Reading:
    """One document on its way to a graph."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.auto: set[str] = set()

    def wrong(self, at: tuple[int, int] | None, message: str, **parts: Any) -> DocumentError:
        who = self.where if at is None else f"{self.where}:{at[0]}:{at[1]}"
        return DocumentError(message, who=who, **parts)

    def told(self, at: tuple[int, int], error: DeclareError) -> DeclareError:
        """An error of the same class that tells the place too."""
        place = f"{self.where}:{at[0]}:{at[1]}"
        error.who = f"{place}: {error.who}" if error.who else place
        return error

    def graph(self, found: Any) -> tuple[Graph, set[str]]:
        if not isinstance(found, Marked):
            raise self.wrong(
                (1, 1), "a pipeline is a mapping", expected="name, source, steps, sink"
            )
        self.known(found, TOP, "a pipeline")
        if "nodes" in found:
            for key in ("source", "steps", "sink", "sinks"):
                if key in found:
                    raise self.wrong(
                        found.keys_at[key],
                        f"{key} and nodes exclude each other",
                        expected="a line (source, steps, sink) or a graph (nodes)",
                    )
            nodes = self.nodes(found["nodes"], found.keys_at["nodes"])
        else:
            nodes = self.line(found)
        name = found.get("name")
        if not isinstance(name, str) or not name:
            raise self.wrong(found.keys_at.get("name", found.at), "the pipeline has no name")
        return Graph(name, tuple(nodes), self.settings(found)), self.auto

    def known(self, found: Marked, words: tuple[str, ...], what: str) -> None:
        for key in found:
            if key not in words:
                raise self.wrong(
                    found.keys_at[key],
                    f"{what} has no {key}",
                    expected="one of " + ", ".join(words),
                    fix=did_you_mean(str(key), words),
                )

    def line(self, found: Marked) -> list[Node]:
        for key in ("source", "sink"):
            if key not in found and not (key == "sink" and "sinks" in found):
                raise self.wrong(found.at, f"the pipeline has no {key}", fix=f"add {key}: ...")
        nodes = [self.end("source", found["source"], found.keys_at["source"], (), [])]
        steps = found.get("steps") or Listed()
        if not isinstance(steps, Listed):
            raise self.wrong(found.keys_at["steps"], "steps is a list", expected="- where: ...")
        for given, at in zip(steps, getattr(steps, "items_at", []), strict=True):
            nodes.append(self.step(given, at, (nodes[-1].name,), nodes))
        last = nodes[-1].name
        if "sink" in found:
            nodes.append(self.end("sink", found["sink"], found.keys_at["sink"], (last,), nodes))
        sinks = found.get("sinks") or Listed()
        if not isinstance(sinks, Listed):
            raise self.wrong(found.keys_at["sinks"], "sinks is a list", expected="- stdout: {}")
        for given, at in zip(sinks, getattr(sinks, "items_at", []), strict=True):
            nodes.append(self.end("sink", given, at, (last,), nodes))
        return nodes

    def nodes(self, found: Any, at: tuple[int, int]) -> list[Node]:
        if not isinstance(found, Listed) or not found:
            raise self.wrong(at, "nodes is a list", expected="- name: ...")
        nodes: list[Node] = []
        for given, place in zip(found, found.items_at, strict=True):
            if not isinstance(given, Marked):
                raise self.wrong(place, "a node is a mapping", expected="name, from and a step")
            inputs = self.inputs(given)
            rest = Marked({k: v for k, v in given.items() if k not in ("source", "sink")})
            rest.at, rest.keys_at = given.at, given.keys_at
            if "source" in given:
                nodes.append(self.end("source", given["source"], place, inputs, nodes, rest))
            elif "sink" in given:
                nodes.append(self.end("sink", given["sink"], place, inputs, nodes, rest))
            else:
                nodes.append(self.step(given, place, inputs, nodes))
        return nodes

    def inputs(self, given: Marked) -> tuple[str, ...]:
        found = given.get("from", ())
        names = [found] if isinstance(found, str) else found
        if not all(isinstance(name, str) for name in names):
            raise self.wrong(
                given.keys_at["from"], "from names the nodes that are read", got=repr(found)
            )
        return tuple(names)

    def chosen(self, given: Any, at: tuple[int, int], kind: str) -> tuple[str, Any, Marked]:
        """The one key that is no common setting, its value, and the mapping."""
        if isinstance(given, str):
            empty = Marked()
            empty.at, empty.keys_at = at, {}
            return given, None, empty
        if not isinstance(given, Marked):
            raise self.wrong(at, f"a {kind} is a name with its options", got=repr(given))
        own = [key for key in given if key not in COMMON]
        if len(own) != 1:
            raise self.wrong(
                given.keys_at[own[1]] if len(own) > 1 else given.at,
                f"a {kind} has one name",
                got=", ".join(map(str, own)) or "none",
                fix="indent its options below its name" if len(own) > 1 else None,
            )
        return str(own[0]), given[own[0]], given

    def end(
        self,
        kind: Kind,
        given: Any,
        at: tuple[int, int],
        inputs: tuple[str, ...],
        before: list[Node],
        common: Marked | None = None,
    ) -> Node:
        what, options, found = self.chosen(given, at, kind)
        if options is not None and not isinstance(options, Mapping):
            raise self.wrong(
                found.keys_at[what], f"the options of {what} are a mapping", got=repr(options)
            )
        shared = {**found, **(common or {})}
        place = found.keys_at.get(what, at)
        return self.made(kind, what, Args(options or {}), inputs, shared, place, before)

    def step(
        self, given: Any, at: tuple[int, int], inputs: tuple[str, ...], before: list[Node]
    ) -> Node:
        what, value, found = self.chosen(given, at, "step")
        place = found.keys_at.get(what, at)
        if what not in STEPS and what.replace("-", "_") in STEPS:
            what = what.replace("-", "_")
        try:
            args = step_args(what, value)
        except DeclareError as error:
            raise self.told(place, error) from None
        return self.made("step", what, args, inputs, found, place, before)

    def made(
        self,
        kind: Kind,
        what: str,
        args: Args,
        inputs: tuple[str, ...],
        common: Mapping[str, Any],
        at: tuple[int, int],
        before: list[Node],
    ) -> Node:
        name = common.get("name")
        try:
            args = end_args(kind, what, args)
        except DeclareError as error:
            raise self.told(at, error) from None
        if name is None:
            name = fresh(default_name(kind, what, args), {node.name for node in before})
            self.auto.add(name)
        try:
            return made_node(
                str(name),
                kind,
                what,
                args,
                inputs,
                common.get("parallelism"),
                common.get("on"),
                common.get("on_error"),
            )
        except DeclareError as error:
            raise self.told(at, error) from None

    def settings(self, found: Marked) -> Settings:
        made = Settings()
        for key in SETTINGS:
            if key in found and found[key] is not None:
                try:
                    made = evolve(made, **self.setting(key, found[key], found.keys_at[key]))
                except DeclareError as error:
                    if error.who is None:
                        raise self.told(found.keys_at[key], error) from None
                    raise
        return made

    def setting(self, key: str, value: Any, at: tuple[int, int]) -> dict[str, Any]:
        if key == "on_error":
            return {"on_error": policy(value, Policy())}
        if key == "limits":
            if not isinstance(value, Mapping):
                raise self.wrong(
                    at, "limits is a mapping", expected="max_rows, max_bytes, max_wait"
                )
            return limits(value)
        if key == "dead_letters":
            what, options, _ = self.chosen(value, at, "sink")
            return {"dead_letters": End(what, Args(options or {}))}
        if key == "guarantee" and value not in GUARANTEES:
            raise self.wrong(
                at,
                "there is no such guarantee",
                expected="one of " + ", ".join(GUARANTEES),
                got=repr(value),
                fix=did_you_mean(str(value), GUARANTEES),
            )
        if key == "bounded" and not isinstance(value, bool):
            raise self.wrong(at, "bounded is true or false", got=repr(value))
        return {key: value}
