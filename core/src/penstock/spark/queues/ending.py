"""Spark ends a stream reader with SIGTERM, not with `stop()`."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType


def on_sigterm(stop: Callable[[], None]) -> None:
    """Call `stop` when this process is told to end, then end it.

    Outside a reader process (a test, a notebook) the main thread may be someone else's: then
    nothing is installed and `stop` must be called.
    """
    if threading.current_thread() is not threading.main_thread():
        return

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            stop()
        finally:
            # Spark's own code around the reader would catch SystemExit and write to a socket
            # that is gone.
            os._exit(0)

    signal.signal(signal.SIGTERM, end)
