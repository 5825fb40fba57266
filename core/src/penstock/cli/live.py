"""Progress that suits a terminal, and plain lines elsewhere; records go to standard output alone."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

import click

_EVERY = 10.0
_WIDE = 80


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
                self._live.update(_table(progress, self._live.console.width))
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


def short(number: float) -> str:
    """A number in four characters or so: 950, 9.5k, 95k, 1.2M."""
    for unit in ("", "k", "M", "G", "T"):
        if number < 999.5 or unit == "T":
            digits = 1 if unit and number < 9.95 else 0
            return f"{number:.{digits}f}{unit}"
        number /= 1000
    raise AssertionError("the last unit holds any number")


def _table(progress: dict[str, Any], width: int) -> Any:
    """Numbers are never cut: on a narrow terminal they are short, and names take more lines."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    narrow = width < _WIDE
    told = short if narrow else "{:,.0f}".format
    done = "running" if progress["running"] else "done"
    title = (
        f"{progress['pipeline']}: {done}, batch {progress['batch']}, {progress['seconds']:.0f} s"
    )
    table = Table(
        title=Text(title),
        title_justify="left",
        box=None if narrow else box.SIMPLE_HEAD,
        pad_edge=not narrow,
    )
    table.add_column("node", overflow="fold")
    for column in ("in", "out", "errors", "rate/s", "lag"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, node in progress["nodes"].items():
        lag = progress["lag"].get(name)
        counts = (node["in"], node["out"], node["errors"] + node["skipped"])
        table.add_row(
            Text(name),
            *(told(count) if count else "" for count in counts),
            told(node["rate"]),
            told(sum(lag.values())) if lag else "",
        )
    return table
