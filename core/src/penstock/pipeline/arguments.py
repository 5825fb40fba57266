"""What users write for a step or an end, brought into one form, so that all three forms agree."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from penstock.contracts.errors import DeclareError, did_you_mean
from penstock.contracts.options import Spec, specs
from penstock.contracts.values import convert
from penstock.pipeline.functions import Function, is_path
from penstock.pipeline.graph import MAIN, Args, Kind, Policy
from penstock.pipeline.steps.catalog import STEPS
from penstock.pipeline.steps.coding import Decode, Encode

_POLICY = {"action": str, "retries": int, "backoff": float, "longest": float}
ACTIONS = ("dead-letter", "skip", "stop")


def step_args(what: str, given: Any) -> Args:
    """The arguments of a step: a bare value is its main option, functions become `Function`s.

    Raises:
        DeclareError: a function is wanted and something else came.
    """
    cls = STEPS.get(what)
    if cls is None:
        named = (
            dict(given) if isinstance(given, Mapping) else {} if given is None else {MAIN: given}
        )
        return Args({k: _wrapped(v) for k, v in named.items()})
    if cls in (Decode, Encode):
        return _coder_args(given)
    declared = {spec.name: spec for spec in specs(cls)}
    if given is None:
        named = {}
    elif isinstance(given, Mapping) and not _is_main_value(cls, declared, given):
        named = dict(given)
    elif cls.main is None:
        raise DeclareError(f"{what} takes no argument", got=repr(given), who=what)
    else:
        named = {cls.main: given}
    try:
        out = {n: _shaped(v, declared[n]) if n in declared else v for n, v in named.items()}
    except DeclareError as error:
        raise error.by(what) from None
    return Args({n: v for n, v in out.items() if v is not None}, hide=False)


def end_args(kind: Kind, what: str, args: Args) -> Args:
    """The arguments of a source or a sink; a function that a sink is given becomes a `Function`.

    Raises:
        DeclareError: a function is wanted and something else came.
    """
    if kind != "sink" or what != "dataframe" or "function" not in args:
        return args
    return Args({**args, "function": Function.of(args["function"])}, hide=False)


def _is_main_value(cls: Any, declared: dict[str, Spec], given: Mapping[Any, Any]) -> bool:
    """Whether a mapping is the main option itself (`rename: {ts: at}`) and not named options."""
    main = declared.get(cls.main or "")
    is_mapping = main is not None and (main.type is dict or typing.get_origin(main.type) is dict)
    return is_mapping and not set(map(str, given)) <= set(declared)


def _coder_args(given: Any) -> Args:
    if isinstance(given, str):
        return Args({"coder": given})
    if isinstance(given, Mapping):
        named = {str(k): v for k, v in given.items()}
        if len(named) == 1 and "coder" not in named:
            [(name, options)] = named.items()
            return Args({"coder": name, **({"options": options} if options else {})})
        if isinstance(named.get("coder"), str):
            name = named.pop("coder")
            options = {**(named.pop("options", None) or {}), **named}
            return Args({"coder": name, **({"options": options} if options else {})})
    raise DeclareError(
        "a coder is wanted", expected='its name, or {"name": {options}}', got=repr(given)
    )


def _shaped(value: Any, spec: Spec) -> Any:
    members = typing.get_args(spec.type) or (spec.type,)
    if Function in members and not isinstance(value, Function):
        if str not in members and value is not None:
            return Function.of(value)
        if callable(value) or is_path(value):
            return Function.of(value)
    if isinstance(value, str) and any(typing.get_origin(m) is list for m in _lists(spec.type)):
        return split_commas(value)
    return _wrapped(value)


def _lists(kind: Any) -> tuple[Any, ...]:
    return (kind,) if typing.get_origin(kind) is list else typing.get_args(kind)


def _wrapped(value: Any) -> Any:
    return Function.of(value) if callable(value) and not isinstance(value, type) else value


def split_commas(text: str) -> list[str]:
    """Split a list of expressions at its outer commas."""
    out, depth, start, quote = [], 0, 0, ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"`":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            out.append(text[start:at].strip())
            start = at + 1
    out.append(text[start:].strip())
    return [part for part in out if part]


def default_name(kind: Kind, what: str, args: Args) -> str:
    """What a node is called that was given no name."""
    function = args.get("function")
    if isinstance(function, Function):
        return what if function.name == "lambda" else function.name
    if kind == "step":
        if what == "branch" and "unless" in args:
            return "branch-else"
        if what in ("decode", "encode"):
            return f"{what}-{args.get('coder')}"
    return what


def policy(given: Any, base: Policy | None = None) -> Policy:
    """An error policy from its name, or a mapping of its parts.

    Raises:
        DeclareError: there is no such action or part.
    """
    base = base or Policy()
    if isinstance(given, Policy):
        return given
    parts = {"action": given} if isinstance(given, str) else dict(given)
    for name in parts:
        if name not in _POLICY:
            raise DeclareError(
                f"an error policy has no {name}",
                expected="one of " + ", ".join(_POLICY),
                fix=did_you_mean(str(name), _POLICY),
            )
    action: Any = parts.get("action", base.action)
    if action not in ACTIONS:
        raise DeclareError(
            "this is no way to handle an error",
            expected="one of " + ", ".join(ACTIONS),
            got=repr(action),
            fix=did_you_mean(str(action), ACTIONS),
        )
    return Policy(
        action=action,
        retries=convert(parts.get("retries", base.retries), int, name="retries"),
        backoff=convert(parts.get("backoff", base.backoff), float, name="backoff", unit="seconds"),
        longest=convert(parts.get("longest", base.longest), float, name="longest", unit="seconds"),
    )
