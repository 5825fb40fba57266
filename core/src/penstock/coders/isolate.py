"""Find the bad rows of a batch without slowing the good ones down.

A whole-batch attempt that fails is repeated on halves. One bad row in a thousand costs about
three times the work of none; a batch that is all bad costs two small attempts per row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from penstock.contracts.coder import RowError
from penstock.contracts.errors import CodecError

T = TypeVar("T")

MAX_REASON = 300
BAD = (CodecError, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError)
"""What an attempt raises when some row of it is bad."""


class Suspect(CodecError):
    """A failed attempt that knows which row (counted from its start) looks bad."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row

    def __reduce__(self) -> tuple[object, ...]:
        return (Suspect, (self.message, self.row))


def reason(error: BaseException) -> str:
    """An error's first line, cut to a bounded length."""
    text = error.message if isinstance(error, CodecError) else str(error)
    return (text.splitlines() or [type(error).__name__])[0][:MAX_REASON]


def isolate(
    count: int,
    attempt: Callable[[int, int], T],
    explain: Callable[[int, BaseException], str] | None = None,
) -> tuple[list[T], list[RowError]]:
    """Results of `attempt(start, stop)` for runs of good rows, in order, and the bad rows.

    Args:
        count: How many rows there are.
        attempt: Works on the rows from start to stop; raises one of `BAD` if one is bad.
        explain: Words for a bad row and its error; by default the error's own.
    """
    done: list[T] = []
    errors: list[RowError] = []
    waiting = [(0, count)] if count else []
    while waiting:
        start, stop = waiting.pop()
        try:
            done.append(attempt(start, stop))
        except BAD as error:
            if stop - start == 1:
                said = explain(start, error) if explain else reason(error)
                errors.append(RowError(row=start, message=said[:MAX_REASON]))
            else:
                waiting += _parts(start, stop, error)
    return done, errors


def _parts(start: int, stop: int, error: BaseException) -> list[tuple[int, int]]:
    if isinstance(error, Suspect) and 0 <= error.row < stop - start:
        at = start + error.row
        parts = [(at + 1, stop), (at, at + 1), (start, at)]
        return [(low, high) for low, high in parts if low < high]
    middle = (start + stop) // 2
    return [(middle, stop), (start, middle)]
