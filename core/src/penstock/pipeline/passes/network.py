"""Where records change places: split before many tasks, merge-sort before one, and only there."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve, field

from penstock.contracts.queue import QueueSource
from penstock.pipeline.joining import fresh
from penstock.pipeline.plan import MergeSort, Split, Stage


@define
class _Lay:
    """How the records leaving a stage lie: in how many tasks, and by key or not."""

    width: int | None
    keyed: bool = False
    dealt: bool = False
    gathered: bool = False


@define
class _Laying:
    """The stages laid so far, and how."""

    out: list[Stage] = field(factory=list)
    lays: dict[str, _Lay] = field(factory=dict)
    made: dict[tuple[str, object], str] = field(factory=dict)
    taken: set[str] = field(factory=set)
    early: set[str] = field(factory=set)


def network(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Insert split and merge-sort where parallelism, key or place changes."""
    laying = _Laying(taken={stage.name for stage in stages}, early=before_state(stages))
    for stage in stages:
        if stage.kind == "source":
            width = stage.parallelism
            # A queue's messages come through one place, however many receivers it has.
            gathered = width == 1 or isinstance(stage.work, QueueSource)
            laying.lays[stage.name] = _Lay(width, gathered=gathered)
            laying.out.append(stage)
            continue
        _lay(laying, stage)
    return tuple(laying.out)


def _lay(laying: _Laying, stage: Stage) -> None:
    width = _width(laying, stage)
    inputs = tuple(_through(laying, name, stage, width) for name in stage.inputs)
    before = [laying.lays[name] for name in inputs]
    scatters = getattr(stage.work, "scatters", False)
    keys = stage.what == "key_by"
    keyed = keys or all(lay.keyed for lay in before)
    laying.lays[stage.name] = _Lay(
        width,
        keyed=keyed,
        dealt=keyed and not keys and not scatters and all(lay.dealt for lay in before),
    )
    shown = stage.parallelism if stage.parallelism is not None else width
    laying.out.append(evolve(stage, inputs=inputs, parallelism=shown))


def _width(laying: _Laying, stage: Stage) -> int | None:
    """In how many tasks a stage runs: as declared, else like what it reads.

    A step right after a source in one place runs everywhere: that is what the source is split for.
    """
    if getattr(stage.work, "scatters", False):
        return None
    if stage.parallelism is not None:
        return stage.parallelism
    before = [laying.lays[name] for name in stage.inputs]
    if len(before) > 1:
        return None
    [lay] = before
    if lay.gathered and stage.kind != "sink":
        return None
    return lay.width


def _through(laying: _Laying, name: str, stage: Stage, width: int | None) -> str:
    """What the stage reads in place of `name`: a network stage, or `name` itself."""
    lay = laying.lays[name]
    if getattr(stage.work, "scatters", False):
        return name
    if stage.name in laying.early:
        # A stream cannot be sorted, and the state's own shuffle undoes any order.
        return name if lay.width == width else _insert(laying, name, stage, Split(width), width)
    if stage.place is not None or (width == 1 and lay.width != 1):
        return _insert(laying, name, stage, MergeSort(stage.place), 1)
    if stage.what == "key_by":
        by_key = False
    else:
        by_key = lay.keyed and not lay.dealt
    several = len(stage.inputs) > 1 and stage.parallelism is None and lay.width != 1
    if several and not by_key and not lay.gathered:
        return name  # a merge takes each input's tasks as they are
    if width != 1 and (by_key or lay.width != width):
        return _insert(laying, name, stage, Split(width, by_key=lay.keyed), width)
    return name


def _insert(
    laying: _Laying, name: str, stage: Stage, work: Split | MergeSort, width: int | None
) -> str:
    if (name, work) in laying.made:
        return laying.made[name, work]
    lay = laying.lays[name]
    kind = "split" if isinstance(work, Split) else "merge-sort"
    called = fresh(kind, laying.taken)
    laying.taken.add(called)
    laying.out.append(
        Stage(
            called,
            stage.node,
            kind,  # type: ignore[arg-type]
            kind,
            work,
            inputs=(name,),
            parallelism=width,
            place=work.place if isinstance(work, MergeSort) else None,
        )
    )
    dealt = isinstance(work, Split) and work.by_key
    laying.lays[called] = _Lay(width, keyed=lay.keyed, dealt=dealt or width == 1)
    laying.made[name, work] = called
    return called


def before_state(stages: Sequence[Stage]) -> set[str]:
    """Stages that keep state, and all before them: they must run on the stream itself."""
    by_name = {stage.name: stage for stage in stages}
    found: set[str] = set()
    waiting = [stage.name for stage in stages if getattr(stage.work, "stateful", False)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(by_name[name].inputs)
    return found


def dealt_by_reader(split: Stage, source: Stage) -> bool:
    """Whether a queue's reader deals its messages out itself, so that no shuffle is needed."""
    return (
        isinstance(split.work, Split)
        and not split.work.by_key
        and isinstance(source.work, QueueSource)
    )
