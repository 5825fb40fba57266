"""Messages that fail every batch they are in: found, isolated, set aside.

A broker mostly says only "redelivered", and a batch that fails takes thousands of healthy
messages back with one bad one. So a durable count is kept of how often a redelivered message
was in a batch that did not commit, and suspects travel in ever smaller batches: the healthy ones
get through and are cleared, the bad one ends up alone, and past its limit in a segment of the
`poison` folder instead of in another batch. Nothing is set aside that has not failed alone.
"""

from __future__ import annotations

import logging
import math
import sqlite3
from collections import deque
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
from attrs import frozen

from penstock.spark.commitlog import local_path
from penstock.spark.queues.aside import Aside

log = logging.getLogger("penstock.queues")

LEAST_SHRINK = 4


@frozen
class Upcoming:
    """Rows that the next batch may begin with."""

    rows: pa.RecordBatch
    redelivered: pa.BooleanArray
    deliveries: pa.Int64Array | None


class Poison:
    """The suspects of one reader. Used by the thread that plans."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._limit = limit
        self._aside = Aside(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(folder / "suspects.db", check_same_thread=False)
        self._db.execute("pragma synchronous = full")
        self._db.execute(
            "create table if not exists failures (key blob primary key, failed int, alone int)"
        )
        self._db.commit()
        self._planned: deque[tuple[int, list[bytes]]] = deque()

    @property
    def count(self) -> int:
        """How many messages this process has set aside."""
        return self._aside.count

    @classmethod
    def within(cls, location: str | None, limit: int) -> Poison | None:
        """For a state folder; None where there is none, or the user wants none."""
        path = None if location is None else local_path(location)
        if path is None and limit:
            log.warning(
                "poison messages are not counted and come again for ever: there is no local "
                "folder for the counts; set state to one"
            )
        return None if path is None or limit == 0 else cls(Path(path), limit)

    def close(self) -> None:
        self._db.close()

    def hopeless(self, first: Upcoming) -> bool:
        """Whether the very next row has failed too often; if so it is set aside, durably."""
        if not first.redelivered[0].as_py():
            return False
        ((failed, alone),) = self._failures(first, [0])
        if failed < self._limit or not alone:
            return False
        self._aside.put(first.rows.slice(0, 1), failed)
        return True

    def left_out(self, end: int, first: Upcoming) -> None:
        """It is acknowledged with this number: another of its id must not inherit its failures."""
        self._planned.append((end, _keys(first, [0])))

    def bound(self, upcoming: Sequence[Upcoming], most: int) -> int:
        """How many rows the next batch may hold, for the sake of the suspects among them.

        Each failure divides it, so that whoever has nearly reached the limit travels alone.
        """
        shrink = max(LEAST_SHRINK, math.ceil(most ** (1 / max(1, self._limit - 1))))
        cap, at = most, 0
        for each in upcoming:
            suspects = _suspects(each)
            failures = self._failures(each, suspects)
            for index, (failed, _) in zip(suspects, failures, strict=True):
                if at + index >= cap:
                    break
                allowed = max(1, most // shrink**failed)
                # A worse suspect than those before it waits for a batch of its own.
                cap = min(cap, allowed) if at + index < allowed else at + index
            at += each.rows.num_rows
            if at >= cap:
                break
        return cap

    def planned(self, end: int, upcoming: Sequence[Upcoming]) -> None:
        """These rows go into a batch: count it before it can fail."""
        keys = [key for each in upcoming for key in _keys(each, _suspects(each))]
        if not keys:
            return
        alone = int(sum(each.rows.num_rows for each in upcoming) == 1)
        with self._db:
            self._db.executemany(
                "insert into failures values (?, 1, ?) on conflict (key) do update "
                "set failed = failed + 1, alone = alone + excluded.alone",
                [(key, alone) for key in keys],
            )
        self._planned.append((end, keys))

    def committed(self, number: int) -> None:
        """Batches up to this number did not fail: their rows are no suspects any more."""
        while self._planned and self._planned[0][0] <= number:
            _, keys = self._planned.popleft()
            with self._db:
                self._db.executemany("delete from failures where key = ?", [(k,) for k in keys])

    def _failures(self, upcoming: Upcoming, indices: Sequence[int]) -> list[tuple[int, int]]:
        """In how many failed batches each was, and in how many of them alone."""
        found = []
        asked = "select failed, alone from failures where key = ?"
        for index, key in zip(indices, _keys(upcoming, indices), strict=True):
            failed, alone = self._db.execute(asked, (key,)).fetchone() or (0, 0)
            if upcoming.deliveries is not None:
                # The broker also counts deliveries that were in no batch, and drops at its own
                # limit: half its count keeps ahead of that.
                failed = max(failed, (upcoming.deliveries[index].as_py() - 1) // 2)
            found.append((failed, alone))
        return found


def _suspects(upcoming: Upcoming) -> list[int]:
    flags = upcoming.redelivered.to_numpy(zero_copy_only=False)
    return [int(index) for index in flags.nonzero()[0]]


def _keys(upcoming: Upcoming, indices: Sequence[int]) -> list[bytes]:
    keys = []
    for index in indices:
        name = upcoming.rows.column("id")[index].as_py()
        value = upcoming.rows.column("value")[index].as_py() or b""
        keys.append(blake2b(value if name is None else name.encode(), digest_size=16).digest())
    return keys
