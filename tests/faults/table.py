"""The table of faults: a row for every run that was disturbed, printed when all have ended."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.conformance.oracle import Verdict

ROW = "fault-row"
HEAD = ("what", "faults", "sent", "lost", "unexpected", "duplicated", "allowed", "seconds")


@pytest.fixture
def judged(record_property: Callable[[str, object], None]) -> Callable[[str, int, Verdict], None]:
    """Put a verdict into the table, then insist on it."""

    def judge(what: str, faults: int, verdict: Verdict) -> None:
        unexpected = sum(verdict.unexpected.values())
        row = [what, faults, verdict.sent, len(verdict.lost), unexpected, verdict.surplus]
        record_property(ROW, [*row, "any" if verdict.allowed is None else verdict.allowed])
        verdict.require()

    return judge


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if getattr(report, "when", "") == "call"
    ]
    rows = [
        [str(cell) for cell in (*row, round(report.duration))]
        for report in reports
        for name, row in report.user_properties
        if name == ROW
    ]
    if not rows:
        return
    terminalreporter.section("faults")
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    for row in [HEAD, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        terminalreporter.write_line("  ".join([row[0].ljust(widths[0]), *cells[1:]]))
