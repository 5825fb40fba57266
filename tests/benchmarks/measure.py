"""Taking turns: ours and the peer's in pairs, so that a drifting machine drifts for both."""

import json
import os
import statistics
import time
from collections.abc import Callable

from attrs import frozen


@frozen
class Pair:
    """The medians of interleaved runs, and the spread of their ratios."""

    ours: float
    peer: float
    ratio: float
    spread: tuple[float, float]


def interleaved(
    ours: Callable[[], float], peer: Callable[[], float], pairs: int = 5, warm: int = 1
) -> Pair:
    """Run both in turn; each returns its own figure. `ratio` is the median of ours / peer."""
    for _ in range(warm):
        ours()
        peer()
    mine, theirs = [], []
    for turn in range(pairs):
        if turn % 2:
            theirs.append(peer())
            mine.append(ours())
        else:
            mine.append(ours())
            theirs.append(peer())
    ratios = sorted(a / b for a, b in zip(mine, theirs, strict=True))
    return Pair(
        statistics.median(mine),
        statistics.median(theirs),
        statistics.median(ratios),
        (ratios[0], ratios[-1]),
    )


def row(name: str, pair: Pair, unit: str, **more: object) -> None:
    """Print one row; the last line of a benchmark is its last row."""
    figure = {
        "bench": name,
        "ours": round(pair.ours, 3),
        "peer": round(pair.peer, 3),
        "ratio": round(pair.ratio, 3),
        "spread": [round(pair.spread[0], 3), round(pair.spread[1], 3)],
        "unit": unit,
        **more,
    }
    print(json.dumps(figure), flush=True)


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def rate(count: int, work: Callable[[], object]) -> float:
    """Thousands a second, where the work is about so many."""
    return count / seconds(work) / 1000


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of processes, from /proc."""
    total = 0.0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                fields = file.read().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total
