"""`penstock connectors`, `coders` and `transforms`: what is installed, and what is broken."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import click

from penstock import registry
from penstock.cli.app import json_option
from penstock.cli.output import emit_json, emit_table
from penstock.contracts.plugin import Connector
from penstock.registry import Listed

_SHOWN = ("name", "distribution", "version", "can", "built_in")


@click.group(invoke_without_command=True)
@click.pass_context
@json_option
def connectors(ctx: click.Context, as_json: bool) -> None:
    """List the installed connectors; `show NAME` prints one's options."""
    if ctx.invoked_subcommand is None:
        _list("connectors", as_json)


@connectors.command("show")
@click.argument("name")
@json_option
def show_connector(name: str, as_json: bool) -> None:
    """Print the options of a connector."""
    from penstock.contracts.options import table

    about, sides = _about(name)
    if as_json:
        options = {side: _schema(classes) for side, classes in sides.items()}
        emit_json({**{each: about[each] for each in _SHOWN}, "options": options})
        return
    click.echo(f"{about['name']} ({about['distribution']} {about['version']}): {about['summary']}")
    for side, classes in sides.items():
        click.echo(f"\n{side} options")
        rows = [row for cls in classes for row in table(cls)]
        emit_table(
            ["option", "type", "default", "what it does"],
            [[r["name"], r["type"], r["default"], r["doc"]] for r in rows],
        )


def _about(name: str) -> tuple[dict[str, Any], dict[str, list[type]]]:
    """What a connector is, and the classes whose options each of its sides takes."""
    for built_in in _built_in():
        if built_in["name"] == name:
            from penstock.pipeline.ends import SINKS, SOURCES

            return built_in, {"source": [SOURCES[name]], "sink": [SINKS[name]]}
    found = registry.connector(name)
    listed = Listed(registry.entry("connectors", name), found=found)
    return _described(listed), _sides(found)


def _sides(found: Connector) -> dict[str, list[type]]:
    from penstock.contracts.delivery import WriteOptions, settings_class

    sides: dict[str, list[type]] = {}
    if found.source is not None:
        sides["source"] = [found.source, settings_class(found.source)]
    if found.sink is not None:
        sides["sink"] = [found.sink, WriteOptions]
    return sides


def _schema(classes: list[type]) -> dict[str, Any]:
    from penstock.contracts.options import json_schema

    merged: dict[str, Any] = {}
    for cls in classes:
        schema = json_schema(cls)
        merged.setdefault("type", "object")
        merged.setdefault("properties", {}).update(schema["properties"])
        merged.setdefault("required", []).extend(schema.get("required", []))
    return merged


@click.group(invoke_without_command=True)
@click.pass_context
@json_option
def coders(ctx: click.Context, as_json: bool) -> None:
    """List the installed coders; `show NAME` prints one's options."""
    if ctx.invoked_subcommand is None:
        _list("coders", as_json)


@coders.command("show")
@click.argument("name")
@json_option
def show_coder(name: str, as_json: bool) -> None:
    """Print the options of a coder."""
    _show(name, registry.coder(name), as_json)


@click.group(invoke_without_command=True)
@click.pass_context
@json_option
def transforms(ctx: click.Context, as_json: bool) -> None:
    """List the installed transforms; `show NAME` prints one's options."""
    if ctx.invoked_subcommand is None:
        _list("transforms", as_json)


@transforms.command("show")
@click.argument("name")
@json_option
def show_transform(name: str, as_json: bool) -> None:
    """Print the options of a transform."""
    _show(name, registry.transform(name), as_json)


def _show(name: str, found: type, as_json: bool) -> None:
    from penstock.contracts.options import json_schema, table

    if as_json:
        emit_json({"name": name, "options": json_schema(found)})
        return
    click.echo((found.__doc__ or name).strip().splitlines()[0])
    emit_table(
        ["option", "type", "default", "what it does"],
        [[r["name"], r["type"], r["default"], r["doc"]] for r in table(found)],
    )


def _list(kind: Any, as_json: bool) -> None:
    found = [_described(each) for each in registry.listing(kind)]
    if kind == "connectors":
        found = sorted([*found, *_built_in()], key=lambda each: str(each["name"]))
    if as_json:
        emit_json(found)
        return
    rows = []
    for each in found:
        what = f"{', '.join(each['can'])}. {each['summary']}" if each["can"] else each["summary"]
        if each["broken"] is not None:
            what = f"broken: {each['broken']}"
        rows.append([each["name"], f"{each['distribution']} {each['version']}", what])
    emit_table([kind[:-1], "distribution", "what it can do"], rows)


def _described(each: Listed) -> dict[str, Any]:
    found, entry = each.found, each.entry
    summary = (getattr(found, "__doc__", None) or "").strip().partition("\n")[0]
    return {
        "name": entry.name,
        "distribution": entry.distribution,
        "version": entry.version,
        "can": found.can() if isinstance(found, Connector) else [],
        "summary": found.summary if isinstance(found, Connector) else summary,
        "built_in": False,
        "broken": each.broken,
    }


def _built_in() -> list[dict[str, Any]]:
    """Ends of a pipeline that no plugin brings; what is said here loads neither Spark nor Arrow."""
    return [
        {
            "name": "spark",
            "distribution": "penstock",
            "version": version("penstock"),
            "can": ["source", "sink"],
            "summary": "built in: any format that Spark itself reads or writes, in pipelines",
            "built_in": True,
            "broken": None,
        }
    ]
