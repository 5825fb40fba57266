"""Where records carry the source's bytes beside what was made of them, for dead letters to come.

Inside a chain they cost nothing. Between chains they take as much room again as the records had,
so they travel only where a later step or sink may need them and `value` no longer holds them.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from penstock.contracts.sink import Sink
from penstock.contracts.transform import Bytes
from penstock.pipeline.plan import Stage


def carried(stages: Sequence[Stage], beside: Set[str] = frozenset()) -> frozenset[str]:
    """The sources and Python stages whose rows leave with the original bytes in `_pen`.

    Those `beside` are sources whose rows come with them.
    """
    readers: dict[str, list[Stage]] = {stage.name: [] for stage in stages}
    had: dict[str, bool] = {}
    as_value: dict[str, bool] = {}
    for stage in stages:
        for name in stage.inputs:
            readers[name].append(stage)
        if stage.kind == "source":
            as_value[stage.name] = isinstance(stage.gives, Bytes) and stage.name not in beside
            had[stage.name] = as_value[stage.name] or stage.name in beside
        else:
            had[stage.name] = any(had[name] for name in stage.inputs)
            as_value[stage.name] = stage.verbatim and all(as_value[n] for n in stage.inputs)
    needed: dict[str, bool] = {}
    hidden: dict[str, bool] = {}
    found = set()
    for stage in reversed(stages):
        name, after = stage.name, readers[stage.name]
        needed[name] = any(_tells(each) or needed[each.name] for each in after)
        hidden[name] = any(_hides(each, needed, hidden) for each in after)
        leaves = stage.kind == "source" or stage.python
        if leaves and had[name] and (hidden if as_value[name] else needed)[name]:
            found.add(name)
    return frozenset(found)


def _tells(stage: Stage) -> bool:
    """Whether a record can become a dead letter here."""
    if stage.policy.action != "dead-letter":
        return False
    return stage.python or (isinstance(stage.work, Sink) and stage.work.refuses())


def _hides(stage: Stage, needed: dict[str, bool], hidden: dict[str, bool]) -> bool:
    """Whether Spark may put something else in the place of `value` before it is needed."""
    if stage.python or stage.kind == "sink":
        return False
    return (hidden if stage.verbatim else needed)[stage.name]
