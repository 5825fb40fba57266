"""What `explain` prints: the plan after each phase, as text, Mermaid or JSON.

In the text each stage stands between its input and its output type; `>>` leads from a stage to
the next, a fork is indented, `x4` is a parallelism and `x*` means everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from penstock.contracts.errors import DeclareError, did_you_mean
from penstock.contracts.queue import QueueSource
from penstock.contracts.sink import Sink
from penstock.contracts.source import ReplayableSource
from penstock.contracts.transform import Anything, Columns, Type
from penstock.pipeline.ends import SparkSink, SparkSource
from penstock.pipeline.functions import Function
from penstock.pipeline.plan import Phase, Plan, Split, Stage
from penstock.pipeline.shapes import user_columns

WIDTH = 80
_BRACKETS = (24, 14, 8)  # how long a type may be written; the first that lets a line fit
_TITLES = {
    "declared": "declared",
    "network": "network: split and merge where parallelism, key or place changes",
    "coders": "coders: types brought together",
    "fused": "fused: what runs where",
}
FORMATS = ("text", "mermaid", "json")


def explain(plan: Plan, format: str = "text") -> str:
    """The plan in one of three forms.

    Raises:
        DeclareError: there is no such form.
    """
    if format not in FORMATS:
        raise DeclareError(
            "a plan cannot be drawn like this",
            expected="one of " + ", ".join(FORMATS),
            got=repr(format),
            fix=did_you_mean(str(format), FORMATS),
        )
    if format == "json":
        return json.dumps(as_json(plan), indent=2)
    return text(plan) if format == "text" else mermaid(plan)


def text(plan: Plan) -> str:
    """Each phase as a tree, 80 columns wide where names allow it."""
    lines = [f"pipeline {plan.graph.name}: {plan.guarantee}"]
    for phase in plan.phases:
        lines += ["", _TITLES[phase.name]]
        lines += list(_tree(phase))
    if plan.notes:
        lines += ["", "notes", *(f"  {note}" for note in plan.notes)]
    return "\n".join(lines) + "\n"


def _tree(phase: Phase) -> Iterator[str]:
    readers: dict[str, list[Stage]] = {stage.name: [] for stage in phase.stages}
    for stage in phase.stages:
        for name in stage.inputs:
            readers[name].append(stage)
    shown: set[str] = set()
    for stage in phase.stages:
        if stage.kind == "source":
            yield from _branch(phase, stage, readers, shown, "", "")


def _branch(
    phase: Phase,
    stage: Stage,
    readers: dict[str, list[Stage]],
    shown: set[str],
    first: str,
    rest: str,
) -> Iterator[str]:
    """A stage and all after it; `first` stands before its own line, `rest` before the others."""
    while True:
        again = stage.name in shown
        shown.add(stage.name)
        yield _line(phase, stage, first, again)
        after = readers[stage.name]
        if again or not after:
            return
        if len(after) > 1:
            break
        stage, first = after[0], rest
    for each in after[:-1]:
        yield from _branch(phase, each, readers, shown, f"{rest}├─ ", f"{rest}│  ")
    yield from _branch(phase, after[-1], readers, shown, f"{rest}└─ ", f"{rest}   ")


def _line(phase: Phase, stage: Stage, indent: str, again: bool) -> str:
    margin = f"  {where(stage):<6} " if phase.name == "fused" else "  "
    arrow = "" if stage.kind == "source" else ">> "
    always = "(above)" if again else breadth(stage)
    for most in _BRACKETS:
        head = f"{margin}{indent}{arrow}{notation(stage, most)}  {always}"
        if len(head) <= WIDTH:
            break
    further: list[str] = []
    if phase.name == "declared" and not again:
        further = [word for word in (promise(stage), detail(stage)) if word]
    elif stage.place is not None and not again:
        further = [f"on {stage.place}"]
    for word in further:
        if len(head) + 2 + len(word) <= WIDTH:
            head += f"  {word}"
    return head


def where(stage: Stage) -> str:
    """Where a stage runs: `python` is an Arrow function between Spark's own stages."""
    return "python" if stage.runs == "spark" and stage.python else str(stage.runs)


def notation(stage: Stage, most: int = _BRACKETS[0]) -> str:
    """A stage between its types: `[bytes] json-decode [id, total]`."""
    if stage.kind == "source":
        return f"{stage.name} [{short(stage.gives, most)}]"
    if stage.kind == "sink":
        return f"[{short(stage.takes, most)}] {stage.name}"
    return f"[{short(stage.takes, most)}] {stage.name} [{short(stage.gives, most)}]"


def short(kind: Type, most: int = _BRACKETS[0]) -> str:
    """A type in a few letters: the names of its columns, as many as fit."""
    if not isinstance(kind, Columns) or kind.schema is None:
        return str(kind)
    names = user_columns(kind.schema).names
    joined = ", ".join(names)
    if len(joined) <= most:
        return joined
    while names and len(", ".join([*names, "..."])) > most:
        names.pop()
    return ", ".join([*names, "..."]) if names else "..."


def breadth(stage: Stage) -> str:
    """A parallelism: `x4`, or `x*` for everywhere."""
    said = "x*" if stage.parallelism is None else f"x{stage.parallelism}"
    if isinstance(stage.work, Split):
        said += " by key" if stage.work.by_key else " round robin"
    return said


def promise(stage: Stage) -> str:
    """What an end keeps, in a word or two."""
    work = stage.work
    if isinstance(work, QueueSource):
        return f"queue, {stage.settings.delivery}"
    if isinstance(work, ReplayableSource):
        return "replayable, bounded" if work.bounded() else "replayable"
    if isinstance(work, SparkSource):
        return "read once" if work.static else "Spark's stream"
    if isinstance(work, Sink | SparkSink):
        where = "on driver, " if stage.place == "driver" else ""
        return where + work.promise().replay
    return ""


def detail(stage: Stage) -> str:
    """What a step does, where its main option is a short text or a function."""
    main = getattr(stage.work, "main", None)
    value = getattr(stage.work, main, None) if main else None
    if isinstance(value, Function):
        return str(value)
    return value if isinstance(value, str) else ""


def mermaid(plan: Plan) -> str:
    """The last phase as a Mermaid flow chart, one box per segment."""
    ids = {stage.name: f"s{n}" for n, stage in enumerate(plan.stages)}
    lines = ["flowchart LR"]
    for number, segment in enumerate(plan.segments):
        lines.append(f'  subgraph g{number}["{segment.runs}"]')
        for stage in plan.members(segment):
            left, right = {"source": ("[(", ")]"), "sink": ("[/", "/]")}.get(stage.kind, ("[", "]"))
            label = _quoted(f"{stage.name} {breadth(stage)}")
            lines.append(f"    {ids[stage.name]}{left}{label}{right}")
        lines.append("  end")
    for stage in plan.stages:
        for name in stage.inputs:
            kind = _quoted(short(plan[name].gives))
            lines.append(f"  {ids[name]} -->|{kind}| {ids[stage.name]}")
    return "\n".join(lines) + "\n"


def _quoted(words: str) -> str:
    return '"' + words.replace('"', "#quot;") + '"'


def as_json(plan: Plan) -> dict[str, Any]:
    """The plan as plain values."""
    return {
        "pipeline": plan.graph.name,
        "guarantee": plan.guarantee,
        "notes": list(plan.notes),
        "phases": [
            {"name": phase.name, "stages": [_stage(stage) for stage in phase.stages]}
            for phase in plan.phases
        ],
        "segments": [
            {
                "name": segment.name,
                "runs": segment.runs,
                "streaming": segment.streaming,
                "stages": list(segment.stages),
                "inputs": list(segment.inputs),
            }
            for segment in plan.segments
        ],
    }


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.name,
        "node": stage.node,
        "kind": stage.kind,
        "what": stage.what,
        "inputs": list(stage.inputs),
        "takes": _type(stage.takes),
        "gives": _type(stage.gives),
        "parallelism": stage.parallelism,
        "place": stage.place,
        "runs": stage.runs,
        "on_error": stage.policy.action,
    }


def _type(kind: Type) -> Any:
    if isinstance(kind, Columns) and kind.schema is not None:
        return {f.name: str(f.type) for f in user_columns(kind.schema)}
    return "any" if isinstance(kind, Anything) else str(kind)
