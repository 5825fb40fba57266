"""The end of a stream reader.

Spark closes its socket, on which the reader's process calls `stop()`, and sends SIGTERM at the
same time: whichever is first must be left to finish.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType

log = logging.getLogger("penstock")

RUNNER = "python_streaming_source_runner"
"""The program in which Spark keeps a reader."""


class Terminated(BaseException):
    """Unwinds what the reader was at when it was told to end."""


class Ending:
    """Calls `stop` when this process is told to end, then ends it.

    A signal that comes while the reader is at work may find locks held: it unwinds the call
    first. Outside a reader process (a test, a notebook) the main thread may be someone else's:
    then nothing is installed and `stop` must be called.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._inside = 0
        self._asked = False
        self._stopping = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._told)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around each call of Spark's."""
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            if self._asked and not self._inside:
                self._end()

    def stopping(self) -> None:
        """`stop` has begun: a signal that comes now must not end the process under it."""
        self._stopping = True
        if Path(sys.argv[0]).stem == RUNNER:
            sys.excepthook = _but_for_a_lost_connection

    def _told(self, number: int, frame: FrameType | None) -> None:
        if self._stopping:
            return
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self._inside:
            self._asked = True
            raise Terminated
        self._end()

    def _end(self) -> None:
        try:
            self._stop()
        except Exception:
            log.exception("a reader that was told to end could not close all it had")
        finally:
            # Spark's own code around the reader would catch SystemExit and write to a socket
            # that is gone.
            os._exit(0)


def _but_for_a_lost_connection(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Spark has closed its socket: that its own code then cannot write to it is no news."""
    if not issubclass(kind, ConnectionError):
        sys.__excepthook__(kind, error, trace)
