"""What is staged: kept on disk once, because computed again it might come out otherwise.

A flow is staged where several read it, and where one step reads it twice. A sink's own batch is
staged where a replay could harm it: one that recognises single tasks' shares of a replayed batch
loses and doubles records if they come to lie in other tasks: after a function that may give
another result and a split behind it, or where Spark decides the layout of what it reads. A
function alone does no such harm: its records stay in their task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from penstock.contracts.errors import GraphError
from penstock.contracts.sink import Sink
from penstock.pipeline.ends import SparkSink, SparkSource
from penstock.pipeline.passes.network import before_state
from penstock.pipeline.plan import Split, Stage

_Held = dict[str, frozenset[str]]


def shared(stages: Sequence[Stage]) -> dict[str, str | None]:
    """The stages whose rows are staged for whoever reads them; a reason where it is not a fork.

    Raises:
        GraphError: rows would have to be staged on the stream itself.
    """
    early = before_state(stages)
    readers: dict[str, set[str]] = {stage.name: set() for stage in stages}
    for stage in stages:
        for name in stage.inputs:
            readers[name].add(stage.name)
    free: _Held = {}
    fails: dict[str, bool] = {}
    found: dict[str, str | None] = {}
    for stage in stages:
        if getattr(stage.work, "rereads", False):
            for name in stage.inputs:
                if free[name] and fails[name] and name not in found:
                    found[name] = _twice(stage, free[name], stages, early)
        apart = _apart(stage, found, early)
        free[stage.name] = _all(free, stage, apart)
        fails[stage.name] = _may_fail(stage) or any(
            fails[name] for name in stage.inputs if name not in apart
        )
        if not _same_again(stage):
            free[stage.name] |= {stage.name}
        if len(readers[stage.name]) > 1 and not readers[stage.name] <= early:
            found[stage.name] = None
    return found


def _twice(stage: Stage, free: Set[str], stages: Sequence[Stage], early: Set[str]) -> str:
    names = ", ".join(sorted(free))
    why = f"{stage.name} reads twice what {names} may give otherwise the second time"
    if stage.name in early:
        keeper = next(s.name for s in stages if getattr(s.work, "stateful", False))
        raise GraphError(
            f"{why}: a record could be lost",
            who=stage.node,
            expected="rows that can be staged in between, which a stream before state cannot",
            fix=f"set deterministic=True on {names} if it is, or put {stage.name} after {keeper}",
        )
    return why


def _same_again(stage: Stage) -> bool:
    """Whether a stage gives the same rows when it is asked again within a batch."""
    if isinstance(stage.work, SparkSource):
        return bool(stage.work.replayable)
    return bool(getattr(stage.work, "deterministic", True))


def _may_fail(stage: Stage) -> bool:
    """Whether rows of its making may be failed ones: what Spark computes either works or stops."""
    return stage.python or (stage.kind == "source" and not isinstance(stage.work, SparkSource))


def _apart(stage: Stage, shared: Mapping[str, object], early: Set[str]) -> set[str]:
    """The inputs that a stage reads from the disk; on the stream itself there is no stage."""
    return set() if stage.name in early else {name for name in stage.inputs if name in shared}


def staged(stages: Sequence[Stage], shared: Mapping[str, object]) -> dict[str, str]:
    """The sinks whose batches are staged first, each with the reason."""
    early = before_state(stages)
    free: _Held = {}
    dealt: _Held = {}
    read: _Held = {}
    sources = {s.name: s for s in stages if isinstance(s.work, SparkSource)}
    found: dict[str, str] = {}
    for stage in stages:
        # What is read from the disk is settled, whatever came before.
        apart = _apart(stage, shared, early)
        free[stage.name] = _all(free, stage, apart)
        dealt[stage.name] = _all(dealt, stage, apart)
        read[stage.name] = _all(read, stage, apart)
        if not getattr(stage.work, "deterministic", True):
            free[stage.name] |= {stage.name}
        if isinstance(stage.work, Split) or getattr(stage.work, "scatters", False):
            dealt[stage.name] |= free[stage.name]
        if stage.name in sources:
            read[stage.name] = frozenset([stage.name])
        if stage.kind == "sink":
            by_spark = [sources[name] for name in sorted(read[stage.name])]
            why = _why(stage, sorted(dealt[stage.name]), by_spark)
            if why is not None:
                found[stage.name] = why
    return found


def _all(held: _Held, stage: Stage, apart: Set[str]) -> frozenset[str]:
    return frozenset(each for name in stage.inputs if name not in apart for each in held[name])


def _why(sink: Stage, dealt: list[str], read: list[Stage]) -> str | None:
    if isinstance(sink.work, SparkSink):
        return "Spark writes it"
    if not isinstance(sink.work, Sink):
        return None
    promise = sink.work.promise()
    for source in read:
        if source.work.static or promise.replay == "idempotent":
            return f"Spark decides how {source.name} lies"
    if dealt and promise.replay == "idempotent" and promise.atomic != "batch":
        return f"{', '.join(dealt)} may give another result on a replay"
    return None
