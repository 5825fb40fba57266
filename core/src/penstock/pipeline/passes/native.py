"""Which sources Spark reads itself: their rows enter Spark anyway, and nothing is fused to them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.contracts.native import ReadsInSpark
from penstock.contracts.source import ReplayableSource
from penstock.pipeline.plan import Segment, Stage


def natives(
    stages: Sequence[Stage], segments: Sequence[Segment], through: str | None
) -> dict[str, str]:
    """What to tell the user, by the source that Spark reads where its files allow it."""
    if through is not None:
        return {}
    by_name = {stage.name: stage for stage in stages}
    found = {}
    for segment in segments:
        source = by_name[segment.stages[0]]
        alone = segment.runs == "reader" and len(segment.stages) == 1
        streaming = any(s.streaming for s in segments if segment.name in s.inputs)
        if alone and not streaming and source.parallelism is None and _able(source):
            found[source.name] = "Spark itself reads the files in which it sees the same rows"
    return found


def _able(source: Stage) -> bool:
    work = source.work
    able = isinstance(work, ReplayableSource) and isinstance(work, ReadsInSpark)
    return able and work.reads_in_spark(stamps=True)
