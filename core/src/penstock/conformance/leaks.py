"""What a process holds: threads, sockets, files, children. What is opened must be closed."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.conformance.processes import parent, tree
from penstock.conformance.waiting import NotInTime, until


def handles() -> Counter[str]:
    """Open sockets and files of this process, by what they are."""
    found: Counter[str] = Counter()
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:
            continue
        if target.startswith(("socket:", "/")) and not target.startswith(("/dev/", "/proc/")):
            found["socket" if target.startswith("socket:") else target] += 1
    return found


def children() -> dict[int, str]:
    """Live child processes of this one, by what they run."""
    found = {}
    for pid in tree(os.getpid()):
        with suppress(OSError):  # it may end while it is looked at
            if parent(pid) == os.getpid():
                found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
    return found


@contextmanager
def held(within: float) -> Iterator[None]:
    """Fail if, so many seconds after the block, more is held than before it."""
    gc.collect()
    before, running = handles(), {t.ident for t in threading.enumerate()}
    born = children()

    def left() -> list[str]:
        gc.collect()
        more = [f"{name} x{n}" for name, n in (handles() - before).items()]
        more += [t.name for t in threading.enumerate() if t.ident not in running]
        return more + [f"process {n} ({p})" for p, n in children().items() if p not in born]

    yield
    try:
        until(lambda: not left(), within=within, why="what was opened is closed", every=0.05)
    except NotInTime:
        raise AssertionError(f"still held after close: {', '.join(left())}") from None
