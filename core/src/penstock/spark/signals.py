"""SIGTERM and Ctrl-C as a wish: finish the batch at work, then stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Asked:
    """Whether someone has asked for the end. The second signal does what it did before."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._set = False

    def __bool__(self) -> bool:
        return self._set

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The signal's handler."""
        self._set = True
        self.leave()

    def listen(self) -> None:
        """Take both signals. Only on the main thread; what is not Python's own is left alone."""
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is not None:
                self._before[number] = signal.signal(number, self)

    def leave(self) -> None:
        """Give them back."""
        for number, handler in self._before.items():
            if signal.getsignal(number) is self:
                signal.signal(number, handler)
        self._before = {}


@contextmanager
def asked_to_stop() -> Iterator[Asked]:
    """Listen for both signals inside.

    Off the main thread, and where someone around us listens already, it is never asked.
    """
    asked = Asked()
    around = isinstance(signal.getsignal(signal.SIGTERM), Asked)
    if around or threading.current_thread() is not threading.main_thread():
        yield asked
        return
    asked.listen()
    try:
        yield asked
    finally:
        asked.leave()
