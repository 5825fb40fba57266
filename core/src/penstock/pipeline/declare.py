"""The fluent form and `>>`: every call gives a new value; nothing is opened, nothing is run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import evolve, field, frozen

from penstock.contracts.errors import DeclareError, did_you_mean
from penstock.pipeline.arguments import default_name, end_args, policy
from penstock.pipeline.graph import Args, End, Graph, Guarantee, Kind, Node, Settings
from penstock.pipeline.joining import fresh, joined
from penstock.pipeline.nodes import GUARANTEES, arguments, end_given, frame_given, limits, made_node
from penstock.pipeline.verbs import Verbs


@frozen
class Pieces:
    """Steps and sinks that are not yet attached to anything: what stands right of `>>`."""

    nodes: tuple[Node, ...]

    def __rshift__(self, other: Any) -> Pieces:
        return Pieces((*self.nodes, *_pieces(other).nodes))

    def __rrshift__(self, flows: Any) -> Flow:
        if isinstance(flows, list | tuple) and all(isinstance(f, Flow) for f in flows):
            first, *others = flows
            merged = first.merge(*others) if others else first
            return merged >> self  # type: ignore[no-any-return]
        return NotImplemented


def _pieces(given: Any) -> Pieces:
    if isinstance(given, Pieces):
        return given
    if callable(given):
        return step("map", given)
    raise DeclareError(
        "this cannot stand right of >>",
        expected="pen.step(...), pen.sink(...), a function, or a list of them",
        got=type(given).__name__,
    )


@frozen(eq=False, repr=False)
class Flow(Verbs):
    """A pipeline being declared, and the node whose records the next step gets.

    Two are equal if their graphs are, however they were written.
    """

    graph: Graph
    at: str | None = None
    auto: frozenset[str] = field(default=frozenset())

    def __eq__(self, other: object) -> bool:
        return self.graph == other.graph if isinstance(other, Flow) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<pipeline {self.graph.name}: {' '.join(n.name for n in self.graph) or 'empty'}>"

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.graph.name

    def named(self, name: str) -> Flow:
        """The same pipeline under another name."""
        return evolve(self, graph=evolve(self.graph, name=_name(name)))

    # --- nodes

    def source(
        self,
        what: Any,
        *,
        name: str | None = None,
        parallelism: int | None = None,
        on_error: Any = None,
        **options: Any,
    ) -> Flow:
        """Read from a connector (by name, with its options), or from a Spark DataFrame."""
        if self.at is not None:
            raise DeclareError(
                "a source begins a line, and this one already has one",
                who=self.graph.name,
                got=f"{self.at}, then {what}",
                fix="declare the second with pen.source(...) and join them with .merge(...)",
            )
        if not isinstance(what, str):
            what, options = "dataframe", {"frame": frame_given(what), **options}
        return self._add("source", what, Args(options), (), name, parallelism, None, on_error)

    def sink(
        self,
        what: Any,
        *,
        name: str | None = None,
        parallelism: int | None = None,
        on: str | None = None,
        on_error: Any = None,
        **options: Any,
    ) -> Flow:
        """Write to a connector, or give each batch to a function of a DataFrame and a number.

        What follows gets the same records the sink gets.
        """
        what, options = end_given(what, options)
        made = self._add(
            "sink", what, Args(options), self._here(what), name, parallelism, on, on_error
        )
        return evolve(made, at=self.at)

    def step(
        self,
        what: str,
        main: Any = None,
        *,
        name: str | None = None,
        parallelism: int | None = None,
        on: str | None = None,
        on_error: Any = None,
        **options: Any,
    ) -> Flow:
        """Any step by name, built in or installed; `main` is its main option."""
        args = arguments(what, main, options)
        return self._add("step", what, args, self._here(what), name, parallelism, on, on_error)

    def merge(self, *others: Flow, name: str | None = None, parallelism: int | None = None) -> Flow:
        """These records and those of other flows, as one stream."""
        flow, heads = self, [] if self.at is None else [self.at]
        for other in others:
            flow, head = _absorbed(flow, other)
            heads.append(head)
        if len(heads) < 2 and self.at is not None:
            raise DeclareError("merge takes other flows", who=self.graph.name, got="none")
        return flow._add("step", "merge", Args(), tuple(heads), name, parallelism, None, None)

    def branch(
        self, predicate: Any, *, names: tuple[str | None, str | None] = (None, None)
    ) -> tuple[Flow, Flow]:
        """Two flows: the records for which the predicate is true, and all the others."""
        yes, no = names
        return (
            self.step("branch", when=predicate, name=yes),
            self.step("branch", unless=predicate, name=no),
        )

    def mirror(self, *targets: Callable[[Flow], Flow], name: str | None = None) -> Flow:
        """The same records to each target (a function from this flow to its end) and onwards."""
        mirrored = self.step("mirror", name=name)
        flow = mirrored
        for target in targets:
            flow = flow.also(target(mirrored))
        return evolve(flow, at=mirrored.at)

    def also(self, *others: Flow) -> Flow:
        """This pipeline and the nodes of others that share its beginnings."""
        flow = self
        for other in others:
            flow = _absorbed(flow, other)[0]
        return flow

    def __rshift__(self, other: Any) -> Flow:
        if isinstance(other, list | tuple):
            return self.also(*(self >> each for each in other))
        flow = self
        for node in _pieces(other).nodes:
            flow = flow._attach(node)
        return flow

    # --- what holds for the whole pipeline

    def guarantee(self, what: Guarantee) -> Flow:
        """Demand `at-least-once` or `exactly-once` from end to end."""
        if what not in GUARANTEES:
            raise DeclareError(
                "there is no such guarantee",
                who=self.graph.name,
                expected="one of " + ", ".join(GUARANTEES),
                got=repr(what),
                fix=did_you_mean(str(what), GUARANTEES),
            )
        return self._set(guarantee=what)

    def on_error(
        self,
        action: Any = "dead-letter",
        *,
        sink: str | None = None,
        options: Mapping[str, Any] | None = None,
        **retries: Any,
    ) -> Flow:
        """What becomes of records that fail: `dead-letter` (to a sink), `skip` or `stop`."""
        given = {"action": action, **retries} if isinstance(action, str) else action
        changes: dict[str, Any] = {"on_error": policy(given, self.graph.settings.on_error)}
        if sink is not None:
            changes["dead_letters"] = End(sink, Args(options or {}))
        return self._set(**changes)

    def limits(
        self,
        *,
        max_rows: int | None = None,
        max_bytes: int | str | None = None,
        max_wait: float | str | None = None,
    ) -> Flow:
        """How much a batch may hold, and how long an unbounded pipeline waits between batches."""
        given = {"max_rows": max_rows, "max_bytes": max_bytes, "max_wait": max_wait}
        return self._set(**limits({k: v for k, v in given.items() if v is not None}))

    def bounded(self, bounded: bool = True) -> Flow:
        """Read what is there now and end, or (False) run on."""
        return self._set(bounded=bounded)

    # --- what comes of it

    def analyse(self) -> Any:
        """The plan: what will run, and where."""
        from penstock.pipeline.analyse import analyse

        return analyse(self.graph)

    def explain(self, format: Literal["text", "mermaid", "json"] = "text") -> str:
        """The plan after each phase, drawn."""
        from penstock.pipeline.render import explain

        return explain(self.analyse(), format)

    def to_yaml(self) -> str:
        """The same pipeline as a YAML document."""
        from penstock.pipeline.document import to_yaml

        return to_yaml(self.graph)

    def run(self, checkpoint: Any = None, **options: Any) -> Any:
        """Run it on Spark; see `penstock.spark.run`."""
        return importlib.import_module("penstock.spark").run(self.graph, checkpoint, **options)

    # --- inside

    def _here(self, what: str) -> tuple[str, ...]:
        if self.at is None:
            raise DeclareError(
                f"{what} has nothing to read",
                who=self.graph.name,
                fix="begin with .source(...) or .merge(...)",
            )
        return (self.at,)

    def _set(self, **changes: Any) -> Flow:
        return evolve(self, graph=self.graph.with_settings(**changes))

    def _attach(self, node: Node) -> Flow:
        made = self._add(
            node.kind,
            node.what,
            node.args,
            self._here(node.what),
            node.name or None,
            node.parallelism,
            node.on,
            node.on_error,
        )
        return evolve(made, at=self.at) if node.kind == "sink" else made

    def _add(
        self,
        kind: Kind,
        what: str,
        args: Args,
        inputs: tuple[str, ...],
        name: str | None,
        parallelism: int | None,
        on: str | None,
        on_error: Any,
    ) -> Flow:
        taken = {node.name for node in self.graph}
        args = end_args(kind, what, args)
        chosen = _name(name) if name is not None else fresh(default_name(kind, what, args), taken)
        node = made_node(chosen, kind, what, args, inputs, parallelism, on, on_error)
        auto = self.auto if name is not None else self.auto | {chosen}
        return evolve(self, graph=self.graph.with_node(node), at=chosen, auto=auto)


def _absorbed(flow: Flow, other: Flow) -> tuple[Flow, str]:
    if not isinstance(other, Flow):
        raise DeclareError(
            "only a flow can be joined to a pipeline",
            expected="pen.source(...) with its steps",
            got=type(other).__name__,
        )
    graph, renamed = joined(flow.graph, other.graph, other.auto)
    auto = flow.auto | {renamed.get(name, name) for name in other.auto}
    head = other.at or (other.graph.nodes[-1].name if other.graph.nodes else "")
    return evolve(flow, graph=graph, auto=auto), renamed.get(head, head)


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or any(c in name for c in "/\\\0\n"):
        raise DeclareError(
            "a name is a short text, since folders are named by it",
            expected="letters, digits, - and _",
            got=repr(name),
        )
    return name


def pipeline(name: str, *parts: Flow) -> Flow:
    """Begin a pipeline, or put flows together under a name."""
    flow = Flow(Graph(_name(name)))
    if not parts:
        return flow
    first, *others = parts
    return first.named(name).also(*others)


def source(what: Any, **options: Any) -> Flow:
    """A source to go on from with `>>` or the methods of a flow."""
    return Flow(Graph("pipeline", settings=Settings())).source(what, **options)


def step(what: str, main: Any = None, **options: Any) -> Pieces:
    """A step for the right of `>>`."""
    return _piece("step", what, main, options)


def sink(what: Any, **options: Any) -> Pieces:
    """A sink for the right of `>>`."""
    what, options = end_given(what, options)
    return _piece("sink", what, None, options)


def _piece(kind: Kind, what: str, main: Any, options: dict[str, Any]) -> Pieces:
    common = {n: options.pop(n, None) for n in ("name", "parallelism", "on", "on_error")}
    args = Args(options) if kind == "sink" else arguments(what, main, options)
    name = common.pop("name") or ""
    return Pieces((made_node(name, kind, what, args, **common),))
