"""The JSON Schema of pipeline files, made from what is installed here."""

from __future__ import annotations

import typing
from typing import Any

from penstock import registry
from penstock.contracts.delivery import WriteOptions, settings_class
from penstock.contracts.options import json_schema, specs
from penstock.pipeline.arguments import ACTIONS
from penstock.pipeline.ends import FormatSink, FormatSource, FunctionSink
from penstock.pipeline.functions import Function
from penstock.pipeline.nodes import GUARANTEES
from penstock.pipeline.steps.catalog import STEPS

_PATH = {"type": "string", "pattern": r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"}
_POLICY = {
    "anyOf": [
        {"enum": list(ACTIONS)},
        {
            "type": "object",
            "properties": {
                "action": {"enum": list(ACTIONS)},
                "retries": {"type": "integer", "minimum": 0},
                "backoff": {"type": ["number", "string"]},
                "longest": {"type": ["number", "string"]},
            },
            "additionalProperties": False,
        },
    ]
}
_COMMON = {
    "name": {"type": "string"},
    "parallelism": {"type": "integer", "minimum": 1},
    "on": {"enum": ["driver"]},
    "on_error": _POLICY,
}


def document_schema() -> dict[str, Any]:
    """A JSON Schema (2020-12) for editors: which keys a pipeline file may hold.

    Broken plugins are left out; what they offer cannot run anyway.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Penstock pipeline",
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "source": {"$ref": "#/$defs/source"},
            "steps": {"type": "array", "items": {"$ref": "#/$defs/step"}},
            "sink": {"$ref": "#/$defs/sink"},
            "sinks": {"type": "array", "items": {"$ref": "#/$defs/sink"}, "minItems": 1},
            "nodes": {"type": "array", "items": {"$ref": "#/$defs/node"}, "minItems": 1},
            "guarantee": {"enum": list(GUARANTEES)},
            "on_error": _POLICY,
            "dead_letters": {"$ref": "#/$defs/sink"},
            "limits": {
                "type": "object",
                "properties": {
                    "max_rows": {"type": "integer", "minimum": 1},
                    "max_bytes": {"type": ["integer", "string"]},
                    "max_wait": {"type": ["number", "string"]},
                },
                "additionalProperties": False,
            },
            "bounded": {"type": "boolean"},
        },
        "required": ["name"],
        "oneOf": [
            {"required": ["source", "sink"]},
            {"required": ["source", "sinks"]},
            {"required": ["nodes"]},
        ],
        "additionalProperties": False,
        "$defs": _definitions(),
    }


def _definitions() -> dict[str, Any]:
    sources, sinks = _ends()
    steps = {name: _step(name) for name in STEPS} | _transforms()
    source_ref, sink_ref = {"$ref": "#/$defs/source"}, {"$ref": "#/$defs/sink"}
    reads = {
        "from": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    }
    return {
        "source": _one_of(sources, {}),
        "sink": _one_of(sinks, {}),
        "step": _one_of(steps, {}),
        "node": _one_of({"source": source_ref, "sink": sink_ref, **steps}, reads, ["name"]),
    }


def _one_of(
    named: dict[str, Any], further: dict[str, Any], required: list[str] | None = None
) -> dict[str, Any]:
    """A name alone, or a mapping with exactly one of these names beside the common settings."""
    mapping: dict[str, Any] = {
        "type": "object",
        "properties": {**named, **_COMMON, **further},
        "oneOf": [{"required": [name]} for name in named],
        "additionalProperties": False,
    }
    if required:
        return {**mapping, "required": required}
    return {"anyOf": [{"enum": sorted(named)}, mapping]}


def _ends() -> tuple[dict[str, Any], dict[str, Any]]:
    sources: dict[str, Any] = {}
    sinks: dict[str, Any] = {}
    for listed in registry.listing("connectors"):
        found = listed.found
        if found is None:
            continue
        if found.source is not None:
            sources[found.name] = _together(found.source, settings_class(found.source))
        if found.sink is not None:
            sinks[found.name] = _together(found.sink, WriteOptions)
    # A DataFrame cannot stand in a file; a function of one can, by its path.
    sources["spark"] = _options(FormatSource)
    sinks["spark"] = _options(FormatSink)
    sinks["dataframe"] = _with_functions(FunctionSink)
    return sources, sinks


def _together(own: type, shared: type) -> dict[str, Any]:
    one, other = _options(own), json_schema(shared)
    merged = {**one, "properties": {**other["properties"], **one["properties"]}}
    return _or_nothing(merged)


def _options(cls: type) -> dict[str, Any]:
    """The options; those collected by a prefix may stand together under one name, too."""
    schema = json_schema(cls)
    for spec in specs(cls):
        if spec.prefix is not None:
            schema["properties"][spec.name] = {"type": "object", "description": spec.doc}
    return schema


def _or_nothing(schema: dict[str, Any]) -> dict[str, Any]:
    return schema if schema.get("required") else {"anyOf": [schema, {"type": "null"}]}


def _step(name: str) -> dict[str, Any]:
    if name in ("decode", "encode"):
        return _coding()
    cls = STEPS[name]
    return _with_main(_with_functions(cls), cls.main, {s.name: s for s in specs(cls)})


def _with_functions(cls: type) -> dict[str, Any]:
    schema = json_schema(cls)
    for spec in specs(cls):
        if Function in (typing.get_args(spec.type) or (spec.type,)):
            text = str in typing.get_args(spec.type)
            shape = {"type": "string"} if text else dict(_PATH)
            schema["properties"][spec.name] = {**shape, "description": spec.doc}
    return schema


def _with_main(schema: dict[str, Any], main: str | None, declared: Any) -> dict[str, Any]:
    if main is None:
        return _or_nothing(schema)
    shapes = [schema, dict(schema["properties"][main])]
    required = schema.get("required", [])
    if not set(required) - {main}:
        kind = declared[main].type
        if list in (typing.get_origin(kind), *map(typing.get_origin, typing.get_args(kind))):
            shapes.append({"type": "string"})
    return {"anyOf": shapes if required else [*shapes, {"type": "null"}]}


def _coding() -> dict[str, Any]:
    named = {}
    for listed in registry.listing("coders"):
        if listed.found is not None:
            # An encoder may go without the schema that a decoder needs.
            options = {k: v for k, v in json_schema(listed.found).items() if k != "required"}
            named[listed.entry.name] = {"anyOf": [options, {"type": "null"}]}
    by_name = {
        "type": "object",
        "properties": named,
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }
    spelled = {
        "type": "object",
        "properties": {"coder": {"enum": sorted(named)}, "options": {"type": "object"}},
        "required": ["coder"],
        "additionalProperties": False,
    }
    return {"anyOf": [{"enum": sorted(named)}, by_name, spelled]}


def _transforms() -> dict[str, Any]:
    out = {}
    for listed in registry.listing("transforms"):
        if listed.found is not None:
            declared = specs(listed.found)
            main = declared[0].name if declared else None
            by_name = {s.name: s for s in declared}
            out[listed.entry.name] = _with_main(json_schema(listed.found), main, by_name)
    return out
