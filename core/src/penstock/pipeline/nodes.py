"""Nodes and settings from what the user wrote, checked; all forms of a pipeline come through here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.contracts.errors import DeclareError, did_you_mean
from penstock.contracts.values import convert
from penstock.pipeline.arguments import policy, step_args
from penstock.pipeline.graph import Args, Kind, Node, Policy

GUARANTEES = ("at-least-once", "exactly-once")


def made_node(
    name: str,
    kind: Kind,
    what: str,
    args: Args,
    inputs: tuple[str, ...] = (),
    parallelism: int | None = None,
    on: str | None = None,
    on_error: Any = None,
) -> Node:
    """A node whose common settings are checked."""
    if parallelism is not None and (not isinstance(parallelism, int) or parallelism < 1):
        raise DeclareError(
            "the parallelism of a node is a count of tasks",
            who=name or what,
            expected="a whole number, 1 or more",
            got=repr(parallelism),
        )
    if on not in (None, "driver"):
        raise DeclareError(
            "there is no such place", who=name or what, expected='"driver"', got=repr(on)
        )
    own: Policy | None = policy(on_error) if on_error is not None else None
    return Node(name, kind, what, args, inputs, parallelism, on, own)


def arguments(what: str, main: Any, options: Mapping[str, Any]) -> Args:
    """The arguments of a step from a main value and named options."""
    if main is None:
        return step_args(what, options or None)
    alone = step_args(what, main)
    if not options:
        return alone
    if what in ("decode", "encode"):
        return step_args(what, {"coder": main, **options})
    key = next(iter(alone))
    if key in options:
        raise DeclareError(f"the option {key} is given twice", who=what)
    return step_args(what, {**alone, **options})


def frame_given(given: Any) -> Any:
    """A DataFrame as a source.

    Raises:
        DeclareError: it is none.
    """
    if hasattr(given, "isStreaming"):
        return given
    raise DeclareError(
        "this is no source",
        expected="a connector's name with its options, or a Spark DataFrame",
        got=type(given).__name__,
    )


def end_given(what: Any, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A sink's name and options, where a function may stand for the name.

    Raises:
        DeclareError: it is neither.
    """
    if isinstance(what, str):
        return what, options
    if callable(what):
        return "dataframe", {"function": what, **options}
    raise DeclareError(
        "this is no sink",
        expected="a connector's name with its options, or a function of a DataFrame and a number",
        got=type(what).__name__,
    )


def limits(given: Mapping[str, Any]) -> dict[str, Any]:
    """Limits in plain numbers from what the user wrote."""
    kinds = {"max_rows": (int, None), "max_bytes": (int, "bytes"), "max_wait": (float, "seconds")}
    out = {}
    for name, value in given.items():
        if name not in kinds:
            raise DeclareError(
                f"there is no limit {name}",
                expected="one of " + ", ".join(kinds),
                fix=did_you_mean(name, kinds),
            )
        kind, unit = kinds[name]
        out[name] = convert(value, kind, name=name, unit=unit)
        if out[name] <= 0:
            raise DeclareError(f"the limit {name} must be above 0", got=repr(value))
    return out
