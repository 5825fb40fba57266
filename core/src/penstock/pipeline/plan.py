"""The analysed pipeline: stages that can run in parallel, with coders in place, cut in segments.

What `explain` draws and what is materialised are both read from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from attrs import field, frozen

from penstock.contracts.transform import Anything, Type
from penstock.pipeline.graph import Graph, Guarantee, Policy

StageKind = Literal["source", "decode", "encode", "split", "merge-sort", "step", "sink"]
Runs = Literal["reader", "spark", "writer", "driver"]


@frozen
class Split:
    """Stamped records dealt out to tasks: round robin, or so that equal `_pen.key` meet.

    `tasks` None: as many as Spark's default parallelism. `by_key` keeps each key's order: the
    records of a partition are sorted by stamp afterwards.
    """

    tasks: int | None = None
    by_key: bool = False


@frozen
class MergeSort:
    """Records brought to one place, each source's order restored by its stamps."""

    place: str | None = None


@frozen
class Stage:
    """One thing that runs.

    Attributes:
        name: Unique in its plan; a declared node's own stage has the node's name.
        node: The declared node it belongs to; a coder or network stage belongs to the node
            it was inserted for.
        kind: What it is.
        what: The connector, coder or step it is made of; `split` or `merge-sort`.
        work: The parsed object: a source, sink, `Coder`, `ObjectCoder`, `Transform`, `Split` or
            `MergeSort`. Picklable (cloudpickle).
        settings: How a source's records come into the query (`contracts.delivery`).
        takes, gives: Its input and output types.
        inputs: The names of the stages it reads.
        parallelism: Tasks that run it; None: everywhere.
        place: `driver`, or None for the workers.
        runs: Where; set by fusion.
        policy: What becomes of a record that fails here.
    """

    name: str
    node: str
    kind: StageKind
    what: str
    work: Any = None
    settings: Any = None
    takes: Type = field(factory=Anything)
    gives: Type = field(factory=Anything)
    inputs: tuple[str, ...] = ()
    parallelism: int | None = None
    place: str | None = None
    runs: Runs | None = None
    policy: Policy = field(factory=Policy)

    @property
    def grain(self) -> str:
        """`rows` or `objects` for what a chain runs, `frame` for Spark's, `end` for the ends."""
        if self.kind in ("source", "sink"):
            return "end"
        if self.kind in ("split", "merge-sort"):
            return "frame"
        if self.kind in ("decode", "encode"):
            return "rows"
        return str(self.work.grain)

    @property
    def python(self) -> bool:
        """Whether it runs inside a `Chain`."""
        return self.grain in ("rows", "objects")

    @property
    def verbatim(self) -> bool:
        """Whether rows pass as they are, or not at all."""
        return self.kind in ("split", "merge-sort") or getattr(self.work, "verbatim", False)


@frozen
class Segment:
    """Stages that run together in one place: a reader, a writer, one Arrow function, Spark.

    Attributes:
        name: The name of its last stage.
        runs: `reader`: the first stage is a source; `writer` or `driver`: the last is a sink;
            `spark`: neither.
        stages: Names, in order.
        inputs: The names of the segments it reads; several only where its first stage merges.
        streaming: Whether it must run on the stream itself and not on each batch: readers,
            stages that keep state, and all between them.
    """

    name: str
    runs: Runs
    stages: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    streaming: bool = False


@frozen
class Phase:
    """The stages as they were after one phase of the analysis."""

    name: Literal["declared", "network", "coders", "fused"]
    stages: tuple[Stage, ...]


@frozen
class Plan:
    """An analysed pipeline.

    Attributes:
        graph: What was declared.
        stages: All stages, each after its inputs.
        segments: The stages cut into what runs together, each after its inputs.
        guarantee: What is kept from end to end.
        phases: The stages after each phase, for explain.
        notes: Sentences the user should know (order given up, a batch that is staged).
        shared: The stages whose rows are staged for all who read them.
        staged: The sinks that must find their batch on disk, whatever attempt this is.
        dead_letters: The sink they go to beside the checkpoint, if there is one.
        through: The writer whose rows the reader's own tasks write, if there is one.
        native: The sources that Spark reads itself, where their files allow it.
        carried: The stages whose rows leave with the source's bytes, for dead letters to come.
    """

    graph: Graph
    stages: tuple[Stage, ...]
    segments: tuple[Segment, ...] = ()
    guarantee: Guarantee = "at-least-once"
    phases: tuple[Phase, ...] = ()
    notes: tuple[str, ...] = ()
    shared: frozenset[str] = frozenset()
    staged: frozenset[str] = frozenset()
    dead_letters: Stage | None = None
    through: str | None = None
    native: frozenset[str] = frozenset()
    carried: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def __getitem__(self, name: str) -> Stage:
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(name)

    def members(self, segment: Segment) -> tuple[Stage, ...]:
        """The stages of a segment, in order."""
        return tuple(self[name] for name in segment.stages)

    def chain(self, segment: Segment) -> tuple[Stage, ...]:
        """Those stages of a segment that a `Chain` runs, in order."""
        return tuple(stage for stage in self.members(segment) if stage.python)

    def readers_of(self, segment: Segment) -> tuple[Segment, ...]:
        """The segments that read this one."""
        return tuple(each for each in self.segments if segment.name in each.inputs)
