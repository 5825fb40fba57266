"""Whole process trees, seen through /proc: kill them, freeze them, thaw them."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from pathlib import Path

from penstock.conformance.waiting import until


def parent(pid: int) -> int | None:
    """The parent of a live process; None if it has gone or is a zombie."""
    try:
        # The name in brackets may hold anything, brackets and spaces included.
        state, ppid = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else int(ppid)


def alive(pid: int) -> bool:
    """Whether the process runs (or is frozen): a zombie is not alive."""
    return parent(pid) is not None


def tree(*roots: int) -> list[int]:
    """The live processes among `roots` and all their descendants, parents first."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (up := parent(int(entry))) is not None:
            children[up].append(int(entry))
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        pid = waiting.pop(0)
        if pid not in found and alive(pid):
            found.append(pid)
            waiting += children[pid]
    return found


def send(pids: list[int], sign: signal.Signals) -> None:
    """Send a signal to each process that is still there."""
    for pid in pids:
        try:
            os.kill(pid, sign)
        except ProcessLookupError:
            continue


def hold(*roots: int) -> list[int]:
    """Freeze whole trees (SIGSTOP), and what they fork meanwhile; return all that is frozen."""
    held: list[int] = []
    while fresh := [pid for pid in tree(*roots) if pid not in held]:
        send(fresh, signal.SIGSTOP)
        held += fresh
    return held


def thaw(*roots: int) -> list[int]:
    """Let frozen trees go on (SIGCONT); return the processes."""
    held = tree(*roots)
    send(held, signal.SIGCONT)
    return held


def slay(*roots: int, within: float = 20) -> list[int]:
    """SIGKILL whole trees at one instant, as a power cut would; return the processes.

    Everything is frozen first, so that no process sees another one die and reacts to it.
    """
    held = hold(*roots)
    send(held, signal.SIGKILL)
    until(
        lambda: not any(alive(pid) for pid in held),
        within=within,
        why=f"the killed processes {held} are gone",
        every=0.01,
    )
    return held
