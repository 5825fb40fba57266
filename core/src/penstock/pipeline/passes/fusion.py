"""What runs together: Python next to a source in its reader, next to a sink in its writer."""

from __future__ import annotations

from collections.abc import Sequence, Set

from attrs import evolve

from penstock.contracts.queue import QueueSource
from penstock.contracts.sink import Sink
from penstock.contracts.source import ReplayableSource
from penstock.pipeline.ends import SparkSource
from penstock.pipeline.passes.network import before_state, dealt_by_reader
from penstock.pipeline.plan import Runs, Segment, Stage


def fuse(
    stages: Sequence[Stage], shared: Set[str] = frozenset()
) -> tuple[tuple[Stage, ...], tuple[Segment, ...]]:
    """The same stages, each told where it runs, and the segments they make.

    A segment ends where its rows are staged (`shared`).
    """
    cut = _Cut(stages)
    for stage in stages:
        if stage.kind == "source":
            cut.take(_reader(cut, stage), "reader")
            if isinstance(stage.work, SparkSource):
                cut.runs[stage.name] = "spark"
    for stage in stages:
        if stage.kind == "sink":
            cut.take(_writer(cut, stage), "driver" if stage.place == "driver" else "writer")
    streaming = before_state(stages)
    for stage in stages:
        if stage.name not in cut.runs:
            cut.take(_between(cut, stage, streaming, shared), "spark")
    told = tuple(evolve(stage, runs=cut.runs[stage.name]) for stage in stages)
    return told, cut.segments(streaming)


def through(stages: Sequence[Stage], segments: Sequence[Segment], staged: Set[str]) -> str | None:
    """The writer that the reader's own tasks can be: nothing lies between them."""
    if [segment.runs for segment in segments] != ["reader", "writer"]:
        return None
    reader, writer = segments
    by_name = {stage.name: stage for stage in stages}
    source, sink = by_name[reader.stages[0]], by_name[writer.stages[-1]]
    fit = isinstance(source.work, ReplayableSource) and isinstance(sink.work, Sink)
    return writer.name if fit and sink.name not in staged else None


class _Cut:
    """Stages with their readers, and the groups taken so far."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = {stage.name: stage for stage in stages}
        self.readers: dict[str, list[Stage]] = {stage.name: [] for stage in stages}
        for stage in stages:
            for name in stage.inputs:
                self.readers[name].append(stage)
        self.runs: dict[str, Runs] = {}
        self.groups: list[tuple[Runs, list[Stage]]] = []

    def take(self, group: list[Stage], runs: Runs) -> None:
        self.groups.append((runs, group))
        for stage in group:
            self.runs[stage.name] = runs

    def next(self, stage: Stage) -> Stage | None:
        """The only reader of a stage, if it reads nothing else."""
        readers = self.readers[stage.name]
        return readers[0] if len(readers) == 1 and len(readers[0].inputs) == 1 else None

    def segments(self, streaming: set[str]) -> tuple[Segment, ...]:
        place = {stage.name: at for at, stage in enumerate(self.stages.values())}
        ends = {member.name: group[-1].name for _, group in self.groups for member in group}
        ordered = sorted(self.groups, key=lambda group: place[group[1][-1].name])
        return tuple(
            Segment(
                group[-1].name,
                runs,
                tuple(stage.name for stage in group),
                tuple(dict.fromkeys(ends[name] for name in group[0].inputs)),
                streaming=runs == "reader" or group[0].name in streaming,
            )
            for runs, group in ordered
        )


def _reader(cut: _Cut, source: Stage) -> list[Stage]:
    group = [source]
    if not isinstance(source.work, ReplayableSource | QueueSource):
        return group
    while (after := cut.next(group[-1])) is not None:
        dealt = len(group) == 1 and dealt_by_reader(after, source)
        if not after.python and not dealt:
            break
        group.append(after)
    return group


def _writer(cut: _Cut, sink: Stage) -> list[Stage]:
    group = [sink]
    while True:
        before = cut.stages[group[0].inputs[0]]
        alone = len(cut.readers[before.name]) == 1
        if not (before.python and alone) or before.name in cut.runs:
            return group
        group.insert(0, before)


def _between(cut: _Cut, first: Stage, streaming: set[str], shared: Set[str]) -> list[Stage]:
    group = [first]
    while group[-1].name not in shared and (after := cut.next(group[-1])) is not None:
        if after.name in cut.runs or (after.name in streaming) != (first.name in streaming):
            break
        group.append(after)
    return group
