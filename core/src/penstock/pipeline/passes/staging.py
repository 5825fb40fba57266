"""Which sinks must find their batch on disk, because another attempt might compute it otherwise.

A sink that recognises single tasks' shares of a replayed batch loses and doubles records if they
come to lie in other tasks: after a function that may give another result and a split behind it,
or where Spark decides the layout of what it reads. A function alone does no such harm: its
records stay in their task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from penstock.contracts.sink import Sink
from penstock.pipeline.ends import SparkSink, SparkSource
from penstock.pipeline.plan import Split, Stage


def staged(stages: Sequence[Stage]) -> dict[str, str]:
    """The sinks whose batches are staged first, each with the reason."""
    free: dict[str, frozenset[str]] = {}
    dealt: dict[str, frozenset[str]] = {}
    read: dict[str, frozenset[str]] = {}
    sources = {s.name: s for s in stages if isinstance(s.work, SparkSource)}
    readers = Counter(name for stage in stages for name in stage.inputs)
    found: dict[str, str] = {}
    for stage in stages:
        free[stage.name] = _all(free, stage)
        dealt[stage.name] = _all(dealt, stage)
        read[stage.name] = _all(read, stage)
        if isinstance(stage.work, Split) or getattr(stage.work, "scatters", False):
            dealt[stage.name] |= free[stage.name]
        if not getattr(stage.work, "deterministic", True):
            free[stage.name] |= {stage.name}
        if stage.name in sources:
            read[stage.name] = frozenset([stage.name])
        if readers[stage.name] > 1:
            # Where a flow forks it is staged already, and what comes before is settled.
            free[stage.name] = dealt[stage.name] = read[stage.name] = frozenset()
        if stage.kind == "sink":
            by_spark = [sources[name] for name in sorted(read[stage.name])]
            why = _why(stage, sorted(dealt[stage.name]), by_spark)
            if why is not None:
                found[stage.name] = why
    return found


def _all(held: dict[str, frozenset[str]], stage: Stage) -> frozenset[str]:
    return frozenset(each for name in stage.inputs for each in held[name])


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
