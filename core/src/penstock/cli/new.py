"""`penstock new`: a connector's project from the template."""

from __future__ import annotations

import sys

import click

from penstock.cli.app import json_option
from penstock.cli.output import emit_json
from penstock.scaffold import LICENCES, SHAPES
from penstock.scaffold import new as make


@click.command("new")
@click.argument("name", required=False)
@click.option("--shape", type=click.Choice(SHAPES), help="What it is.")
@click.option("--licence", type=click.Choice(LICENCES), help="Apache-2.0 unless given.")
@click.option("--folder", default=".", help="Where the project's folder is made.")
@json_option
def new(
    name: str | None, shape: str | None, licence: str | None, folder: str, as_json: bool
) -> None:
    """Make the project of a new connector, coder or transform; it works at once.

    What is not given is asked for at a terminal; elsewhere NAME and --shape are needed.
    """
    asking = sys.stdin.isatty() and not as_json
    if name is None:
        name = click.prompt("Its name, as users will write it") if asking else _needed("NAME")
    if shape is None:
        choices = click.Choice(SHAPES)
        shape = click.prompt("What is it?", type=choices) if asking else _needed("--shape")
    if licence is None:
        licence = LICENCES[0]
        if asking:
            licence = click.prompt("Licence", type=click.Choice(LICENCES), default=licence)
    made = make(name, shape, licence, folder)
    if as_json:
        emit_json({"name": name, "shape": shape, "licence": licence, "folder": str(made)})
        return
    click.echo(f"made {made}")
    click.echo(f"next: cd {made} && tox; then search for CHANGE")


def _needed(what: str) -> str:
    raise click.UsageError(f"{what} is needed where nobody can be asked")
