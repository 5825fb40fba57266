"""`penstock connectors` and `penstock coders`: what is installed, and what is broken."""

from __future__ import annotations

from typing import Any

import click

from penstock import registry
from penstock.cli.app import json_option
from penstock.cli.output import emit_json, emit_table
from penstock.contracts.plugin import Connector
from penstock.registry import Listed


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

    found = registry.connector(name)
    entry = registry.entry("connectors", name)
    sides = _sides(found)
    if as_json:
        emit_json(
            {
                "name": name,
                "distribution": entry.distribution,
                "version": entry.version,
                "can": found.can(),
                "options": {side: _schema(classes) for side, classes in sides.items()},
            }
        )
        return
    click.echo(f"{entry.who}: {found.summary}")
    for side, classes in sides.items():
        click.echo(f"\n{side} options")
        rows = [row for cls in classes for row in table(cls)]
        emit_table(
            ["option", "type", "default", "what it does"],
            [[r["name"], r["type"], r["default"], r["doc"]] for r in rows],
        )


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
    from penstock.contracts.options import json_schema, table

    found = registry.coder(name)
    if as_json:
        emit_json({"name": name, "options": json_schema(found)})
        return
    click.echo((found.__doc__ or name).strip().splitlines()[0])
    emit_table(
        ["option", "type", "default", "what it does"],
        [[r["name"], r["type"], r["default"], r["doc"]] for r in table(found)],
    )


def _list(kind: Any, as_json: bool) -> None:
    listed = registry.listing(kind)
    if as_json:
        emit_json([_described(each) for each in listed])
        return
    rows = []
    for each in listed:
        entry = each.entry
        what = f"broken: {each.broken}" if each.broken is not None else _can(each.found)
        rows.append([entry.name, f"{entry.distribution} {entry.version}", what])
    emit_table([kind[:-1], "distribution", "what it can do"], rows)


def _can(found: Any) -> str:
    if isinstance(found, Connector):
        return f"{', '.join(found.can())}. {found.summary}".strip()
    return (found.__doc__ or "").strip().splitlines()[0]


def _described(each: Listed) -> dict[str, Any]:
    found = each.found
    return {
        "name": each.entry.name,
        "distribution": each.entry.distribution,
        "version": each.entry.version,
        "can": found.can() if isinstance(found, Connector) else [],
        "summary": found.summary if isinstance(found, Connector) else "",
        "broken": each.broken,
    }
