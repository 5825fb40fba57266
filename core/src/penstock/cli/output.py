"""How the command line speaks: JSON for programs, tables for people, errors for both."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from penstock.contracts.errors import PenstockError


def emit_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table that fits the terminal: long cells wrap, none is cut off."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index == 0)
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    width = None if sys.stdout.isatty() else 120
    Console(width=width, highlight=False).print(table)


def emit_error(error: PenstockError, as_json: bool) -> None:
    """Print an error: to standard error, or as JSON to standard output."""
    if as_json:
        emit_json({"error": type(error).__name__, "message": error.message, **error.parts()})
        return
    head, *rest = str(error).splitlines()
    click.echo(click.style("error: ", fg="red", bold=True) + head, err=True)
    for line in rest:
        click.echo(line, err=True)
