"""How the command line speaks: JSON for programs, tables for people, errors for both."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import click

from penstock.contracts.errors import PenstockError


def emit_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table that fits the terminal: long cells wrap, none is cut off."""
    wide = shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else 120
    widths = _widths([columns, *rows], max(wide, 20))
    click.echo(_line(columns, widths))
    click.echo("  ".join("-" * width for width in widths))
    for row in rows:
        click.echo(_line(row, widths))


def _widths(rows: Sequence[Sequence[str]], wide: int) -> list[int]:
    """Natural widths, the widest columns narrowed until all fit."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    room = wide - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1
    return widths


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for parts in zip_longest(*cells, fillvalue=""):
        pairs = zip(parts, widths, strict=True)
        lines.append("  ".join(part.ljust(width) for part, width in pairs).rstrip())
    return "\n".join(lines)


def _wrapped(cell: str, width: int) -> list[str]:
    lines = [wrapped for line in cell.splitlines() for wrapped in textwrap.wrap(line, width)]
    return lines or [""]


def emit_error(error: PenstockError, as_json: bool) -> None:
    """Print an error: to standard error, or as JSON to standard output."""
    if as_json:
        emit_json({"error": type(error).__name__, "message": error.message, **error.parts()})
        return
    head, *rest = str(error).splitlines()
    click.echo(click.style("error: ", fg="red", bold=True) + head, err=True)
    for line in rest:
        click.echo(line, err=True)
