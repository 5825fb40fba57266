"""How records come to lie in the tasks that write them, in words that two attempts can compare."""

from __future__ import annotations

from penstock.pipeline.plan import MergeSort, Plan, Split, Stage
from penstock.pipeline.steps.columns import KeyBy
from penstock.pipeline.steps.frames import Deduplicate


def layout(plan: Plan, sink: Stage) -> str:
    """The stages that deal a sink's records out, from the last staged rows on, in order."""
    if sink.name in plan.staged:
        return ""
    wanted = {sink.name}
    said: list[str] = []
    for stage in reversed(plan.stages):
        if stage.name in wanted and stage.name not in plan.shared:
            wanted.update(stage.inputs)
            said.append(_said(stage))
    return ", ".join(words for words in reversed(said) if words)


def _said(stage: Stage) -> str:
    work = stage.work
    if isinstance(work, Split):
        return f"split {'by key' if work.by_key else 'round robin'} over {work.tasks or 'all'}"
    if isinstance(work, MergeSort):
        return "merge-sort"
    if isinstance(work, KeyBy):
        key = work.function.name if work.function is not None else ", ".join(work.columns or ())
        return f"key_by {key}"
    if isinstance(work, Deduplicate):
        return f"deduplicate {', '.join(work.by or ['id'])}"
    return ""
