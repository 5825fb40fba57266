"""`penstock conformance NAME`: the suite of an installed plugin."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from penstock.cli.app import json_option
from penstock.cli.output import emit_json


@click.command("conformance")
@click.argument("name")
@click.option("--tests", multiple=True, help="The file or module of its suite, if it does not say.")
@click.option("--seed", type=int, help="Repeat a run with the seed it printed.")
@click.option("--output", help="Write the report to this file too, as JSON.")
@click.option("--only", help="Only clauses whose test matches (pytest's -k): src_11, snk, que.")
@json_option
def conformance(
    name: str,
    tests: tuple[str, ...],
    seed: int | None,
    output: str | None,
    only: str | None,
    as_json: bool,
) -> None:
    """Run the conformance suite of an installed connector, coder or transform."""
    # By name: the suite stands above the command line and may use all of it.
    suite: Any = importlib.import_module("penstock.conformance.report")
    report = suite.run(
        name,
        tests=list(tests) or None,
        seed=seed,
        output=output,
        arguments=["-k", only] if only else [],
    )
    if as_json:
        emit_json(report.to_json())
    else:
        click.echo(str(report))
    if not report.ok:
        sys.exit(4)
