"""What has been received, planned and committed, shared by Spark's thread and the receivers.

Rows get their number when they are planned into a batch, not when they arrive: what a lost
connection takes back leaves no gap.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field

from penstock.contracts.queue import Lease
from penstock.contracts.source import Limit
from penstock.spark.queues.poison import Upcoming

Sizes = np.ndarray[Any, np.dtype[np.int64]]

ROW_OVERHEAD = 64
"""What a row weighs beside its texts and bytes: stamp, time, offsets; an estimate for limits."""


@define(eq=False)
class Held:
    """A lease that is not acknowledged yet.

    Attributes:
        rows: The lease's rows.
        weight: About how many bytes they are.
        planned: How many of them are in a batch.
        end: The number of its last row, once that is planned.
    """

    lease: Lease
    receiver: int
    rows: pa.RecordBatch
    sizes: Sizes
    weight: int
    planned: int = 0
    end: int | None = None


@define(eq=False)
class _Piece:
    start: int
    end: int
    rows: pa.RecordBatch


@define
class Counts:
    """Numbers for the query's progress.

    Attributes:
        again: Planned rows that a lost connection took back.
        depth: What each receiver last saw in the queue.
        first: What each saw there before it took anything.
    """

    received: int = 0
    redelivered: int = 0
    reconnects: int = 0
    again: int = 0
    depth: dict[int, int] = field(factory=dict)
    first: dict[int, int] = field(factory=dict)


def row_sizes(rows: pa.RecordBatch) -> Sizes:
    """About how many bytes each row takes."""
    sizes: Sizes = np.full(rows.num_rows, ROW_OVERHEAD, dtype=np.int64)
    for name in ("value", "key", "id"):
        sizes += _lengths(rows.column(name))
    headers = rows.column("headers")
    if headers.null_count < len(headers):
        ends = headers.offsets.to_numpy()
        pairs = headers.values.slice(ends[0], ends[-1] - ends[0])
        before = np.zeros(len(pairs) + 1, dtype=np.int64)
        np.cumsum(sum(_lengths(part) for part in pairs.flatten()), out=before[1:])
        sizes += np.diff(before[ends - ends[0]])
    return sizes


def _lengths(texts: pa.Array) -> Sizes:
    if texts.null_count == len(texts):
        return np.zeros(len(texts), dtype=np.int64)
    found: Sizes = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


def fitting(sizes: Sizes, limit: Limit) -> int:
    """How many of the leading rows fit a limit; at least one if there is any."""
    count = len(sizes) if limit.rows is None else min(limit.rows, len(sizes))
    if limit.bytes is not None and count:
        count = int(np.searchsorted(np.cumsum(sizes[:count]), limit.bytes, side="right"))
    return max(count, 1) if len(sizes) else 0


def _to_fill(batch: int | None, waiting: int) -> int:
    """How much is missing to what waits until it is whole batches, one more if it is."""
    size = batch or 1
    return size - waiting % size


class Ledger:
    """All leases of one reader. Thread-safe; the lock may be taken again by a signal handler."""

    def __init__(self, receivers: int, limit: Limit, leases: int | None) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._leases = leases
        self._batch = limit
        ahead = 1 if leases == 1 else 2
        self._share_rows = max(1, ahead * (limit.rows or 1) // receivers)
        self._share_bytes = max(1, ahead * (limit.bytes or 1) // receivers)
        self._unplanned: deque[Held] = deque()
        self._open: dict[int, deque[Held]] = {n: deque() for n in range(receivers)}
        self._pieces: deque[_Piece] = deque()
        self.planned = 0
        self.committed = 0
        self.counts = Counts()

    @property
    def window(self) -> Limit:
        """How much one receiver may hold unacknowledged."""
        return Limit(rows=self._share_rows, bytes=self._share_bytes)

    def wake(self) -> None:
        """Wake whoever waits: something outside has changed."""
        with self._changed:
            self._changed.notify_all()

    def room(self, receiver: int) -> Limit:
        """What a receiver may take now; no rows: nothing, only serve heartbeats.

        No more than fills a batch: a lease in two of them could not be acknowledged with the first,
        and the broker, which waits for that, would send nothing for the second.
        """
        with self._changed:
            held = self._open[receiver]
            if self._leases is not None and len(held) >= self._leases:
                return Limit(rows=0)
            rows = self._share_rows - sum(len(each.sizes) for each in held)
            size = self._share_bytes - sum(each.weight for each in held)
            if rows <= 0 or size <= 0:
                return Limit(rows=0)
            return Limit(
                rows=min(rows, _to_fill(self._batch.rows, self.ready())),
                bytes=min(size, _to_fill(self._batch.bytes, self._weight())),
            )

    def add(self, receiver: int, lease: Lease) -> None:
        """Take a lease in."""
        rows = lease.rows
        sizes = row_sizes(rows)
        held = Held(lease=lease, receiver=receiver, rows=rows, sizes=sizes, weight=int(sizes.sum()))
        with self._changed:
            self.counts.received += lease.rows.num_rows
            self.counts.redelivered += pc.sum(lease.redelivered).as_py() or 0
            self._open[receiver].append(held)
            if rows.num_rows:
                self._unplanned.append(held)
            else:
                held.end = self.planned
            self._changed.notify_all()

    def void(self, receiver: int) -> None:
        """A receiver lost its connection: the broker has all of its open leases again."""
        with self._changed:
            self.counts.again += sum(held.planned for held in self._open[receiver])
            self._open[receiver].clear()
            self._unplanned = deque(h for h in self._unplanned if h.receiver != receiver)
            self._changed.notify_all()

    @contextmanager
    def held_still(self) -> Iterator[None]:
        """No receiver adds or takes back anything meanwhile."""
        with self._changed:
            yield

    def wait(self, seconds: float) -> None:
        """Sleep until something changes, at most so long."""
        with self._changed:
            self._changed.wait(seconds)

    def ready(self) -> int:
        """How many rows wait to be planned."""
        with self._changed:
            return sum(h.rows.num_rows - h.planned for h in self._unplanned)

    def fills(self, limit: Limit) -> bool:
        """Whether the rows that wait are as much as this, by number or by size."""
        with self._changed:
            enough = limit.rows is not None and self.ready() >= limit.rows
            return enough or (limit.bytes is not None and self._weight() >= limit.bytes)

    def _weight(self) -> int:
        return sum(int(each.sizes[each.planned :].sum()) for each in self._unplanned)

    def upcoming(self, count: int | None) -> list[Upcoming]:
        """The rows that wait, in order, at most so many."""
        found: list[Upcoming] = []
        with self._changed:
            for held in self._unplanned:
                size = held.rows.num_rows - held.planned
                size = size if count is None else min(size, count)
                if size <= 0:
                    break
                lease, at = held.lease, held.planned
                counts = lease.deliveries
                found.append(
                    Upcoming(
                        held.rows.slice(at, size),
                        lease.redelivered.slice(at, size),
                        None if counts is None else counts.slice(at, size),
                    )
                )
                count = None if count is None else count - size
        return found

    def skip(self) -> int:
        """Leave the next row out of every batch; it is acknowledged with its lease.

        Returns:
            The number whose commit lets the lease be acknowledged, or is the first that may.
        """
        with self._changed:
            held = self._unplanned[0]
            held.planned += 1
            if held.planned < held.rows.num_rows:
                return self.planned + 1
            held.end = self.planned
            self._unplanned.popleft()
            return self.planned

    def plan(self, limit: Limit) -> int:
        """Put a prefix of what has arrived into the next batch; the number it ends at."""
        rows_left = limit.rows
        bytes_left = limit.bytes
        with self._changed:
            while self._unplanned and limit.rows != 0:
                held = self._unplanned[0]
                sizes = held.sizes[held.planned :]
                count = fitting(sizes, Limit(rows=rows_left, bytes=bytes_left))
                size = int(sizes[:count].sum())
                began = limit.rows != rows_left or limit.bytes != bytes_left
                if began and bytes_left is not None and size > bytes_left:
                    break  # a single row over the limit waits for a batch of its own
                piece = held.rows.slice(held.planned, count)
                self._pieces.append(_Piece(self.planned, self.planned + count, piece))
                self.planned += count
                held.planned += count
                if held.planned == held.rows.num_rows:
                    held.end = self.planned
                    self._unplanned.popleft()
                rows_left = None if rows_left is None else rows_left - count
                bytes_left = None if bytes_left is None else bytes_left - size
                if (rows_left is not None and rows_left <= 0) or (
                    bytes_left is not None and bytes_left <= 0
                ):
                    break
            return self.planned

    def rows(self, start: int, end: int) -> list[pa.RecordBatch]:
        """The planned rows between two numbers."""
        with self._changed:
            return [p.rows for p in self._pieces if p.start >= start and p.end <= end]

    def commit(self, number: int) -> None:
        """Spark has committed all rows up to this number."""
        with self._changed:
            if number <= self.committed:
                return
            self.committed = number
            while self._pieces and self._pieces[0].end <= number:
                self._pieces.popleft()
            self._changed.notify_all()

    def due(self, receiver: int) -> list[Lease]:
        """The leases of a receiver that may be acknowledged, in order; each is given once."""
        with self._changed:
            held = self._open[receiver]
            found = []
            while held and held[0].end is not None and held[0].end <= self.committed:
                found.append(held.popleft().lease)
            return found

    def waits(self) -> bool:
        """Whether anything that is planned waits for its commit."""
        return self.planned > self.committed

    def unacknowledged(self) -> int:
        """How many messages the broker still counts as delivered, not acknowledged."""
        with self._changed:
            return sum(h.lease.rows.num_rows for held in self._open.values() for h in held)
