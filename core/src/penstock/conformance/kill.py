"""Kill a driver at a named point, start it again, until it finishes.

The core tells `penstock.contracts.points` whenever it reaches a point; `observer` below is who
listens. It runs in whichever process reached the point (the Python driver, the stream reader that
is a child of the JVM, a Python worker), counts over all of them, and strikes once:

    sink-finished@2             the second time, SIGKILL driver, JVM and workers at one instant
    mid-write@1:worker          SIGKILL only the process that reached it
    sinks-finished@1:freeze     SIGSTOP everything; `Driver.thaw` lets it go on
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import frozen

from penstock.conformance import processes, quick
from penstock.conformance.waiting import NotInTime, until

STRIKES = "PENSTOCK_KILL_AT"
FOLDER = "PENSTOCK_KILL_FOLDER"
GATE = "PENSTOCK_KILL_GATE"
KINDS = ("tree", "worker", "freeze")
_PDEATHSIG = 1


@frozen
class Strike:
    """At which point, the how-manieth time, and what is done then."""

    point: str
    count: int = 1
    kind: str = "tree"

    @classmethod
    def parse(cls, text: str) -> Strike:
        """Read `point@count:kind`; count and kind may be left out."""
        found = re.fullmatch(r"([\w-]+)(?:@(\d+))?(?::(\w+))?", text.strip())
        if not found or (found[3] or "tree") not in KINDS or found[2] == "0":
            kinds = ", ".join(KINDS)
            raise ValueError(
                f"{STRIKES}: {text!r} is no strike; write point@count or point@count:kind, "
                f"where count begins at 1 and kind is one of {kinds}"
            )
        return cls(found[1], int(found[2] or 1), found[3] or "tree")

    def __str__(self) -> str:
        return f"{self.point}@{self.count}:{self.kind}"


def observer(name: str, facts: Mapping[str, object]) -> None:
    """Count that this process has reached a point, and strike if its time has come."""
    folder = Path(os.environ[FOLDER])
    count = _count(folder / f"{name}.count")
    for text in filter(None, os.environ.get(STRIKES, "").split(",")):
        strike = Strike.parse(text)
        if (strike.point, strike.count) == (name, count) and _claim(folder, strike, facts):
            _deliver(strike)


def stand_by() -> None:
    """Called by a driver program that is ready: wait until its life begins.

    With `Driver(standby=True)` the next life starts its Spark while this one works, and waits
    here; the program must not have touched anything of the run before.
    """
    while not begun():
        time.sleep(0.02)


def begun() -> bool:
    """Whether this life may begin: one that need not stand by need not warm up."""
    gate = os.environ.get(GATE)
    return gate is None or os.path.exists(gate)


def _count(path: Path) -> int:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b".")
        file.flush()
        return file.tell()


def _claim(folder: Path, strike: Strike, facts: Mapping[str, object]) -> bool:
    said = {
        "strike": str(strike),
        "pid": os.getpid(),
        "facts": {k: repr(v) for k, v in facts.items()},
    }
    try:
        with (folder / f"{strike}.struck").open("x") as file:
            json.dump(said, file)
    except FileExistsError:
        return False
    return True


def _deliver(strike: Strike) -> None:
    me = os.getpid()
    if strike.kind == "worker":
        os.kill(me, signal.SIGKILL)
    others = _hold_session(os.getsid(0), spare=me)
    if strike.kind == "freeze":
        os.kill(me, signal.SIGSTOP)
        return
    processes.send(others, signal.SIGKILL)
    os.kill(me, signal.SIGKILL)


def _session(session: int) -> list[int]:
    """All live processes of a session, and their descendants in others, the leader first."""
    members = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.getsid(int(entry)) == session:
                members.append(int(entry))
        except ProcessLookupError:
            continue
    return processes.tree(*sorted(members, key=lambda pid: pid != session))


def _hold_session(session: int, spare: int | None = None) -> list[int]:
    held: list[int] = []
    while fresh := [pid for pid in _session(session) if pid != spare and pid not in held]:
        processes.send(fresh, signal.SIGSTOP)
        held += fresh
    return held


def _die_with_parent() -> None:
    """A driver must not outlive the tests that started it, however these end (Linux)."""
    with suppress(OSError):
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    processes.send(_hold_session(process.pid), signal.SIGKILL)
    process.wait(timeout=20)
    until(lambda: not _session(process.pid), within=20, why="nothing of the driver is left")


class DriverFailed(AssertionError):
    """The driver did something other than be killed as told and then finish."""


class Driver:
    """A driver program in a session of its own, that can be killed, frozen and started again.

    Args:
        command: the program; a path that ends in .py is run by this Python.
        folder: an empty folder for its log and for what was struck.
        strikes: `point@count:kind` each; every one happens once, in this life or a later one.
        env: further environment variables.
        standby: whether the program calls `stand_by`; its next life is then made ready while
            this one works.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path,
        strikes: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        standby: bool = False,
    ) -> None:
        words = [str(word) for word in command]
        self.command = [sys.executable, *words] if words[0].endswith(".py") else words
        self.folder = folder
        self.log = folder / "driver.log"
        self.strikes = [Strike.parse(text) for text in strikes]
        self.lives = 0
        self._env = dict(env or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._standby = standby
        self._next: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> Driver:
        """Start the program; never while it runs."""
        if self.running:
            raise RuntimeError("the driver runs already")
        self.lives += 1
        with self.log.open("ab") as log:
            log.write(f"--- life {self.lives} ---\n".encode())
        self._process, self._next = self._next or self._launch(self.lives), None
        self._gate(self.lives).touch()
        if self._standby and len(self.struck()) < len(self.strikes):
            self._next = self._launch(self.lives + 1)
        return self

    def _gate(self, life: int) -> Path:
        return self.folder / f"life-{life}"

    def _launch(self, life: int) -> subprocess.Popen[bytes]:
        observed = {
            "PENSTOCK_OBSERVER": "penstock.conformance.kill:observer",
            STRIKES: ",".join(map(str, self.strikes)),
            FOLDER: str(self.folder),
            GATE: str(self._gate(life)),
            "PYSPARK_PYTHON": sys.executable,
        }
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**quick.environment(), **os.environ, **observed, **self._env},
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the driver was never started")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def struck(self) -> list[dict[str, Any]]:
        """What was struck so far, with who reached the point and the facts it gave."""
        found = sorted(self.folder.glob("*.struck"), key=lambda path: path.stat().st_mtime_ns)
        return [json.loads(path.read_text()) for path in found if path.stat().st_size]

    def times(self, point: str) -> int:
        """How often a point was reached, over all lives and processes."""
        path = self.folder / f"{point}.count"
        return path.stat().st_size if path.exists() else 0

    def pids(self) -> list[int]:
        """The driver, its JVM and its Python workers."""
        return _session(self.pid)

    def kill(self) -> None:
        """SIGKILL the whole tree now, at no particular point."""
        if self._process is not None:
            _end(self._process)

    def end(self) -> None:
        """SIGKILL the whole tree, and what stands by."""
        self.kill()
        if self._next is not None:
            _end(self._next)
            self._next = None

    def freeze(self) -> list[int]:
        """SIGSTOP the whole tree."""
        return _hold_session(self.pid)

    def thaw(self) -> None:
        """Let a frozen tree go on."""
        processes.send(self.pids(), signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM to the Python driver alone, as an orderly stop."""
        os.kill(self.pid, signal.SIGTERM)

    def wait(self, within: float) -> int:
        """Wait for the end of this life; its exit code, negative for a signal."""
        try:
            until(lambda: not self.running, within=within, why="the driver ends")
        except NotInTime as late:
            raise NotInTime(f"{late}\n{self.log_tail()}") from None
        assert self._process is not None
        return int(self._process.returncode)

    def finish(self, within: float) -> Driver:
        """Start it, and again after each strike, until it ends by itself with 0.

        Raises:
            DriverFailed: it ended in another way, or a strike never came.
            NotInTime: a life took longer than `within` seconds.
        """
        try:
            while True:
                before = len(self.struck())
                if not self.running:
                    self.start()
                code = self.wait(within)
                # A JVM that outlives its driver would still write.
                self.kill()
                if code == 0:
                    break
                if len(self.struck()) == before:
                    raise DriverFailed(f"the driver ended with {code} unstruck\n{self.log_tail()}")
        finally:
            self.end()
        done = {entry["strike"] for entry in self.struck()}
        if never := [str(strike) for strike in self.strikes if str(strike) not in done]:
            raise DriverFailed(f"never struck: {', '.join(never)}; points reached: {self.counts()}")
        return self

    def counts(self) -> dict[str, int]:
        """How often each point was reached, over all lives."""
        return {path.stem: path.stat().st_size for path in self.folder.glob("*.count")}

    def log_tail(self, lines: int = 40) -> str:
        """The end of what the driver printed."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
