"""Growing pauses between attempts, with jitter and an end."""

from __future__ import annotations

import random
import time


class Backoff:
    """How long to wait before the next attempt.

    Args:
        first: the first pause, in seconds.
        most: the longest pause.
        within: give up when attempts have failed for so long.
    """

    def __init__(self, within: float, first: float = 0.1, most: float = 5.0) -> None:
        self._within = within
        self._first = first
        self._most = most
        self._next = first
        self._since: float | None = None

    def pause(self) -> float | None:
        """The pause after one more failure; None if it is time to give up."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since > self._within:
            return None
        pause, self._next = self._next, min(self._most, self._next * 2)
        return pause * random.uniform(0.5, 1.0)

    def worked(self) -> None:
        """An attempt succeeded: begin anew with the next failure."""
        self._since = None
        self._next = self._first
