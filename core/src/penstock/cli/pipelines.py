"""`penstock validate`, `explain` and `schema`: all that can be said without Spark."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.app import json_option
from penstock.cli.output import emit_json
from penstock.pipeline.plan import Plan


def analysed(file: str) -> Plan:
    """The plan of a pipeline file."""
    from penstock.pipeline.analyse import analyse
    from penstock.pipeline.document import graph_of
    from penstock.registry import tell

    graph = graph_of(Path(file))
    tell("analysing", pipeline=graph.name, graph=graph)
    plan = analyse(graph)
    tell("analysed", pipeline=graph.name, plan=plan)
    return plan


@click.command()
@click.argument("file", type=click.Path())
@json_option
def validate(file: str, as_json: bool) -> None:
    """See that a pipeline FILE can be understood and can work; starts nothing."""
    plan = analysed(file)
    nodes = [node.name for node in plan.graph]
    if as_json:
        emit_json({"pipeline": plan.graph.name, "nodes": nodes, "guarantee": plan.guarantee})
        return
    click.echo(f"{file}: the pipeline {plan.graph.name} is sound: {' >> '.join(nodes)}")
    click.echo(f"guarantee: {plan.guarantee}")
    for note in plan.notes:
        click.echo(f"note: {note}")


@click.command()
@click.argument("file", type=click.Path())
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "json"]),
    default="text",
    help="How to draw it.",
)
@json_option
def explain(file: str, form: str, as_json: bool) -> None:
    """Draw a pipeline FILE after each phase: declared, network, coders, fused."""
    from penstock.pipeline.render import explain as drawn

    click.echo(drawn(analysed(file), "json" if as_json else form))


@click.command()
@json_option
def schema(as_json: bool) -> None:
    """Print the JSON Schema of pipeline files, from what is installed."""
    from penstock.pipeline.schema import document_schema

    emit_json(document_schema())
