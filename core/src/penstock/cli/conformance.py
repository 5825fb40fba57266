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
@click.option("--server", metavar="URL", help="The server to run it against, if it needs one.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="What else it takes to reach the server; a secret as ${env:NAME} or ${file:PATH}.",
)
@click.option("--emulator", is_flag=True, help="The server is an emulator; the report says so.")
@click.option("--seed", type=int, help="Repeat a run with the seed it printed.")
@click.option("--output", help="Write the report to this file too, as JSON.")
@click.option("--only", help="Only clauses whose test matches (pytest's -k): src_11, snk, que.")
@json_option
def conformance(
    name: str,
    tests: tuple[str, ...],
    server: str | None,
    options: tuple[str, ...],
    emulator: bool,
    seed: int | None,
    output: str | None,
    only: str | None,
    as_json: bool,
) -> None:
    """Run the conformance suite of an installed connector, coder or transform."""
    # By name: the suite stands above the command line and may use all of it.
    given = dict(each.partition("=")[::2] for each in options)
    if wrong := [each for each in options if "=" not in each]:
        raise click.BadParameter(f"{wrong[0]!r} is not NAME=VALUE", param_hint="--option")
    suite: Any = importlib.import_module("penstock.conformance.report")
    report = suite.run(
        name,
        tests=list(tests) or None,
        seed=seed,
        server=server,
        options=given,
        emulator=emulator,
        output=output,
        arguments=["-k", only] if only else [],
    )
    if as_json:
        emit_json(report.to_json())
    else:
        click.echo(str(report))
    if not report.ok:
        sys.exit(4)
