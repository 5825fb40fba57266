"""Progress that suits a terminal, and plain lines elsewhere; records go to standard output alone."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

import click

_EVERY = 10.0


class View:
    """What a running pipeline does, on standard error."""

    def __init__(self, name: str, quiet: bool = False) -> None:
        self._name = name
        self._quiet = quiet
        self._terminal = sys.stderr.isatty() and not quiet
        self._began = time.monotonic()
        self._said = 0.0
        self._live: Any = None
        self._text = ""

    def __enter__(self) -> View:
        if self._terminal:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=5, transient=False)
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def say(self, doing: str) -> None:
        """What is being done before there is anything to count."""
        text = f"{self._name}: {doing} ({time.monotonic() - self._began:.0f} s)"
        if self._live is not None:
            from rich.spinner import Spinner

            self._live.update(Spinner("dots", text))
        elif not self._quiet:
            click.echo(text, err=True)

    def show(self, progress: dict[str, Any], last: bool = False) -> None:
        """Records in and out by node; on a terminal in place, elsewhere a line now and then."""
        if self._live is not None:
            if progress["nodes"] or last:
                self._live.update(_table(progress))
            return
        if self._quiet or not progress["nodes"]:
            return
        now, text = time.monotonic(), line(progress)
        if text != self._text and (last or now - self._said > _EVERY):
            self._said, self._text = now, text
            click.echo(text, err=True)


def line(progress: dict[str, Any]) -> str:
    """One plain line: `orders: batch 3, generator 1,000, localfile 980, 20 errors`."""
    nodes = progress["nodes"]
    counts = [f"{name} {max(n['in'], n['out']):,}" for name, n in nodes.items()]
    errors = sum(n["errors"] for n in nodes.values())
    skipped = sum(n["skipped"] for n in nodes.values())
    parts = [f"{progress['pipeline']}: batch {progress['batch']}", *counts]
    if errors:
        parts.append(f"{errors:,} dead letters")
    if skipped:
        parts.append(f"{skipped:,} skipped")
    behind = sum(sum(parts_.values()) for parts_ in progress["lag"].values())
    if behind:
        parts.append(f"{behind:,} behind")
    return ", ".join(parts)


def _table(progress: dict[str, Any]) -> Any:
    from rich import box
    from rich.table import Table

    done = "running" if progress["running"] else "done"
    title = (
        f"{progress['pipeline']}: {done}, batch {progress['batch']}, {progress['seconds']:.0f} s"
    )
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("node")
    for column in ("in", "out", "errors", "rate/s", "lag"):
        table.add_column(column, justify="right")
    for name, node in progress["nodes"].items():
        lag = progress["lag"].get(name)
        table.add_row(
            name,
            f"{node['in']:,}" if node["in"] else "",
            f"{node['out']:,}" if node["out"] else "",
            f"{node['errors'] + node['skipped']:,}" if node["errors"] + node["skipped"] else "",
            f"{node['rate']:,.0f}",
            f"{sum(lag.values()):,}" if lag else "",
        )
    return table
