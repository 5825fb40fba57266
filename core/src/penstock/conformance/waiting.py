"""Wait for a condition with a deadline: what tests do instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NotInTime(AssertionError):
    """The condition did not come true within its deadline."""


def until(
    condition: Callable[[], T],
    *,
    within: float,
    why: str,
    every: float = 0.05,
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """Ask `condition` until its answer is true, and return that answer.

    Args:
        condition: asked at least once, and once more after the deadline has passed.
        within: seconds until giving up.
        why: what is waited for, as it should read in the failure: "the queue is empty".
        every: seconds between two questions.
        ignoring: errors that mean "not yet"; the last of them is named in the failure.

    Raises:
        NotInTime: with `why`, the time waited, and the last answer or error.
    """
    began = time.monotonic()
    deadline = began + within
    while True:
        last_chance = time.monotonic() >= deadline
        error: Exception | None = None
        answer: T | None = None
        try:
            answer = condition()
        except ignoring as not_yet:
            error = not_yet
        if answer:
            return answer
        if last_chance:
            waited = time.monotonic() - began
            seen = f"last error: {error!r}" if error else f"last answer: {answer!r}"
            raise NotInTime(f"waited {waited:.1f} s until {why}; {seen}") from error
        time.sleep(min(every, max(0.0, deadline - time.monotonic())))


def quiet(
    changes: Callable[[], object], *, seconds: float, within: float, why: str, every: float = 0.1
) -> object:
    """Wait until the answer of `changes` has stayed the same for `seconds`; return it."""
    seen = changes()
    since = time.monotonic()

    def settled() -> bool:
        nonlocal seen, since
        now = changes()
        if now != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since >= seconds

    until(settled, within=within, why=why, every=every)
    return seen
