"""A graph as YAML: a line where it is one, else its nodes."""

from __future__ import annotations

from typing import Any

import attrs

from penstock.contracts.errors import DeclareError
from penstock.contracts.secret import Secret
from penstock.pipeline.arguments import default_name, step_args
from penstock.pipeline.functions import Function
from penstock.pipeline.graph import MAIN, Args, Graph, Node, Policy, Settings
from penstock.pipeline.joining import fresh
from penstock.pipeline.loading import dump
from penstock.pipeline.steps.catalog import STEPS


def to_yaml(graph: Graph) -> str:
    """The document that `from_yaml` reads back as an equal graph.

    Raises:
        DeclareError: something in it cannot be written down: a lambda, a literal secret.
    """
    body: dict[str, Any] = {"name": graph.name}
    line = _line(graph)
    if line is not None:
        body |= line
    else:
        body["nodes"] = [_node(node) for node in graph]
    return dump(body | _settings(graph.settings))


def _line(graph: Graph) -> dict[str, Any] | None:
    """The nodes as source, steps and sinks, if that is what they are, in order."""
    nodes = list(graph)
    if not nodes or nodes[0].kind != "source" or nodes[-1].kind != "sink":
        return None
    steps = [node for node in nodes[1:] if node.kind == "step"]
    sinks = [node for node in nodes[1:] if node.kind == "sink"]
    if nodes != [nodes[0], *steps, *sinks]:
        return None
    before = nodes[0].name
    for node in steps:
        if node.inputs != (before,):
            return None
        before = node.name
    if any(sink.inputs != (before,) for sink in sinks):
        return None
    taken: set[str] = set()
    written = []
    for node in nodes:
        made = fresh(default_name(node.kind, node.what, node.args), taken)
        written.append(_end(node, made) if node.kind != "step" else _step(node, made))
        taken.add(node.name)
    out: dict[str, Any] = {"source": written[0]}
    if steps:
        out["steps"] = written[1 : 1 + len(steps)]
    last = written[1 + len(steps) :]
    return out | ({"sink": last[0]} if len(last) == 1 else {"sinks": last})


def _node(node: Node) -> dict[str, Any]:
    out: dict[str, Any] = {"name": node.name}
    if node.inputs:
        out["from"] = node.inputs[0] if len(node.inputs) == 1 else list(node.inputs)
    if node.kind == "step":
        step = _step(node, node.name)
        return out | ({step: {}} if isinstance(step, str) else step)
    return out | {node.kind: {node.what: _plain(node.args, node)}} | _common(node, node.name)


def _end(node: Node, default: str) -> dict[str, Any]:
    return {node.what: _plain(node.args, node)} | _common(node, default)


def _step(node: Node, default: str) -> Any:
    value = _value(node)
    common = _common(node, default)
    if value is None and not common:
        return node.what
    return {node.what: {} if value is None else value} | common


def _value(node: Node) -> Any:
    """What stands behind a step's name: its main option alone, or a mapping."""
    args = node.args
    if not args:
        return None
    if node.what in ("decode", "encode"):
        options = args.get("options")
        return {args["coder"]: _plain(options, node)} if options else args["coder"]
    cls = STEPS.get(node.what)
    main = MAIN if cls is None else cls.main
    if main is not None and set(args) == {main}:
        short = _plain(args[main], node)
        if cls is None or step_args(node.what, short) == args:
            return short
    return _plain(args, node)


def _plain(value: Any, node: Node) -> Any:
    if isinstance(value, Args):
        return {key: _plain(each, node) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each, node) for each in value]
    if isinstance(value, Function):
        return _path(value, node)
    if isinstance(value, Secret):
        if value.reference is None:
            raise DeclareError(
                "a secret's value is not written to a file",
                who=node.name,
                fix="declare it as a reference, ${env:NAME} or ${file:PATH}",
            )
        return value.reference
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "__fspath__"):
        return str(value)
    raise DeclareError(
        f"a value of {node.name} cannot be written to YAML",
        who=node.name,
        expected="text, numbers, lists and mappings of them, functions with an import path",
        got=type(value).__name__,
    )


def _path(function: Function, node: Node) -> str:
    if function.path is None or function.path.startswith("__main__:"):
        raise DeclareError(
            f"the function {function.name} has no import path, so YAML cannot name it",
            who=node.name,
            expected='a function of a module, named "module:function"',
            got="a lambda or a function inside another" if function.path is None else function.path,
            fix="move it to a module and import it from there",
        )
    return function.path


def _common(node: Node, default: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if node.name != default:
        out["name"] = node.name
    if node.parallelism is not None:
        out["parallelism"] = node.parallelism
    if node.on is not None:
        out["on"] = node.on
    if node.on_error is not None:
        out["on_error"] = _policy(node.on_error)
    return out


def _policy(policy: Policy) -> Any:
    changed = {
        a.name: getattr(policy, a.name)
        for a in attrs.fields(Policy)
        if getattr(policy, a.name) != a.default or a.name == "action"
    }
    return changed["action"] if set(changed) == {"action"} else changed


def _settings(settings: Settings) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if settings.guarantee is not None:
        out["guarantee"] = settings.guarantee
    if settings.on_error != Policy():
        out["on_error"] = _policy(settings.on_error)
    if settings.dead_letters is not None:
        end = settings.dead_letters
        held = Node("dead_letters", "sink", end.what, end.args)
        out["dead_letters"] = {end.what: _plain(end.args, held)}
    names = ("max_rows", "max_bytes", "max_wait")
    bounds = {n: getattr(settings, n) for n in names if getattr(settings, n) is not None}
    if bounds:
        out["limits"] = bounds
    if settings.bounded is not None:
        out["bounded"] = settings.bounded
    return out
