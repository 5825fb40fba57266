"""Messages that wait for a lease, as columns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence, Sized
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import frozen

from penstock.contracts import Limit


@frozen(eq=False)
class Run:
    """Messages in the channel's order.

    Attributes:
        rows: As envelope rows; a stamp's position is the delivery tag.
        redelivered: Which the broker had delivered before.
        deliveries: How often each was delivered, where the broker counts.
        sizes: Bytes of each one's body and of all its properties.
    """

    rows: pa.RecordBatch
    redelivered: pa.BooleanArray
    deliveries: pa.Int64Array | None
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.sizes)

    def tags(self) -> pa.Int64Array:
        """The delivery tags."""
        return self.rows.column("stamp").field("position")

    def split(self, count: int) -> tuple[Run, Run]:
        """The first so many, and the others."""
        return self._part(0, count), self._part(count, len(self) - count)

    def _part(self, first: int, count: int) -> Run:
        return Run(
            self.rows.slice(first, count),
            self.redelivered.slice(first, count),
            None if self.deliveries is None else self.deliveries.slice(first, count),
            self.sizes[first : first + count],
        )


def joined(parts: Sequence[Run]) -> Run:
    """All of them, one behind another; where the broker counted some, the others came once."""
    if len(parts) == 1:
        return parts[0]
    counted = any(part.deliveries is not None for part in parts)
    return Run(
        pa.Table.from_batches([part.rows for part in parts]).combine_chunks().to_batches()[0],
        pa.concat_arrays([part.redelivered for part in parts]),
        pa.concat_arrays([_counts(part) for part in parts]) if counted else None,
        np.concatenate([part.sizes for part in parts]),
    )


def _counts(part: Run) -> pa.Int64Array:
    if part.deliveries is not None:
        return part.deliveries
    return pa.repeat(pa.scalar(1, pa.int64()), len(part))


class Pending:
    """What has come and is in no lease yet.

    Args:
        read: makes a run of messages as they came; called when the first of them are taken.
    """

    def __init__(self, read: Callable[[Any], Run]) -> None:
        self._read = read
        self._unread: list[Any] = []
        self._runs: deque[Run] = deque()
        self._rows = self._bytes = 0
        self._average = 0.0

    def __len__(self) -> int:
        return self._rows

    def append(self, messages: Sized, size: int) -> None:
        """Behind all others; of so many bytes together."""
        last = self._unread[-1] if self._unread else None
        if isinstance(messages, list) and isinstance(last, list):
            last.extend(messages)
        else:
            self._unread.append(messages)
        self._rows += len(messages)
        self._bytes += size
        self._average = self._bytes / self._rows

    def fills(self, limit: Limit) -> bool:
        """Whether as much is there as may be taken at once."""
        return (limit.rows is not None and self._rows >= limit.rows) or (
            limit.bytes is not None and self._bytes >= limit.bytes
        )

    def room(self, limit: Limit) -> float:
        """About how many bytes more fill it, if messages are like those that came before."""
        rows = inf if limit.rows is None else (limit.rows - self._rows) * self._average
        return min(rows, inf if limit.bytes is None else limit.bytes - self._bytes)

    def take(self, limit: Limit) -> Run:
        """The first that fit, or the first alone if it does not."""
        self._runs.extend([self._read(messages) for messages in self._unread])
        self._unread = []
        parts: list[Run] = []
        rows = limit.rows if limit.rows is not None else self._rows
        room = limit.bytes if limit.bytes is not None else self._bytes
        while self._runs and rows > 0:
            run = self._runs[0]
            fit = min(rows, int(np.searchsorted(run.sizes.cumsum(), room, side="right")))
            fit = fit or int(not parts)
            if fit < len(run):
                if fit:
                    run, self._runs[0] = run.split(fit)
                    parts.append(run)
                break
            parts.append(self._runs.popleft())
            rows -= fit
            room -= int(run.sizes.sum())
        taken = joined(parts)
        self._rows -= len(taken)
        self._bytes -= int(taken.sizes.sum())
        return taken
