"""Ends the servers of a test process that was itself killed.

A child process reads the sessions to watch from a pipe. When the pipe closes, whatever the reason,
it kills what is left of them.
"""

import subprocess
import sys
from functools import cache

_CHILD = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
watched = set()
for line in sys.stdin:
    (watched.add if line[0] == "+" else watched.discard)(int(line[1:]))
for entry in os.listdir("/proc"):
    try:
        if entry.isdigit() and os.getsid(int(entry)) in watched:
            os.kill(int(entry), signal.SIGKILL)
    except ProcessLookupError:
        continue
"""


@cache
def _child() -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-S", "-c", _CHILD],
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def watch(session: int) -> None:
    _tell(f"+{session}\n")


def forget(session: int) -> None:
    _tell(f"-{session}\n")


def _tell(line: str) -> None:
    pipe = _child().stdin
    pipe.write(line)
    pipe.flush()
