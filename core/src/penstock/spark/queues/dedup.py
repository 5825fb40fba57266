"""Which messages came before: ids and payload digests of the last while, on disk and in memory.

Sixteen bytes and a flag a message, in sorted arrays that are merged as they grow, so that ten
million remembered ids take a few hundred megabytes and a batch is looked up whole.

Ids age only while messages come. What a broker delivers again comes after an outage, of the broker
or of the query, however long that was: it must not find its id forgotten meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import define, frozen

from penstock.contracts.durable import sync_folder

_DTYPE = np.dtype([("id", "<u8"), ("digest", "<u8"), ("redelivered", "?")])
_PAUSE = 0.1
"""The part of the horizon that a pause between two batches counts as at most."""

Known = np.ndarray[Any, np.dtype[Any]]


@define
class _Tier:
    known: Known
    newest: float


@frozen
class Found:
    """What was found out about a batch's rows.

    Attributes:
        duplicate: One boolean per row: leave it out.
        same_id: How many rows were kept although their id came before.
        nameless: How many have no id, and may come twice.
    """

    duplicate: Known
    same_id: int
    nameless: int = 0


class Memory:
    """The ids of one spool.

    Args:
        folder: holds one file per manifest.
        horizon: seconds that an id is remembered; a long pause counts as a tenth of them.
        unique: the user states that equal id and payload is the same message, also where the
            broker does not say that it was delivered before.
    """

    def __init__(self, folder: Path, horizon: float, unique: bool) -> None:
        self._folder = folder
        self._horizon = horizon
        self._unique = unique
        self._tiers: list[_Tier] = []
        self._files: dict[int, float] = {}
        self._age = 0.0
        self._last = time.monotonic()

    def load(self, upto: int) -> None:
        """Remember what manifests up to this number held; files of later ones are leftovers."""
        found: list[int] = []
        for name in os.listdir(self._folder):
            stem = name.removesuffix(".npy")
            if stem.isdigit() and int(stem) <= upto:
                found.append(int(stem))
            else:
                (self._folder / name).unlink()
        last = None
        for number in sorted(found):
            written = self._path(number).stat().st_mtime
            self._age += 0.0 if last is None else self._pause(written - last)
            last = written
            self._files[number] = self._age
        self._forget()
        for number in self._files:
            self._add(np.load(self._path(number)), self._files[number])

    def look(self, rows: pa.Table) -> Found:
        """Which of these rows, in order, are messages that came before or earlier among them."""
        ids = rows.column("id_hash")
        named = np.flatnonzero(~ids.is_null().to_numpy())
        duplicate = np.zeros(rows.num_rows, dtype=bool)
        if not len(named):
            return Found(duplicate, 0, rows.num_rows)
        entries = _entries(rows, named)
        seen, met = self._among_known(entries)
        again, behind = self._among_each_other(entries, seen)
        duplicate[named[seen | again]] = True
        same_id = int(((met | behind) & ~(seen | again)).sum())
        return Found(duplicate, same_id, rows.num_rows - len(named))

    def remember(self, number: int, rows: pa.Table, duplicate: Known) -> None:
        """Keep the ids of a manifest's rows, durably, before the manifest is published."""
        named = np.flatnonzero(~rows.column("id_hash").is_null().to_numpy() & ~duplicate)
        entries = _entries(rows, named)
        with open(self._path(number), "wb") as file:
            np.save(file, entries)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self._folder)
        now = time.monotonic()
        self._age += self._pause(now - self._last)
        self._last = now
        self._forget()
        self._files[number] = self._age
        self._add(entries, self._age)

    def __len__(self) -> int:
        return sum(len(tier.known) for tier in self._tiers)

    def _among_known(self, entries: Known) -> tuple[Known, Known]:
        """Which of these are remembered, and of which at least the id is."""
        seen = np.zeros(len(entries), dtype=bool)
        met = np.zeros(len(entries), dtype=bool)
        for tier in self._tiers:
            left = np.searchsorted(tier.known["id"], entries["id"], side="left")
            right = np.searchsorted(tier.known["id"], entries["id"], side="right")
            found = np.flatnonzero(right > left)
            met[found] = True
            for group in _groups(left[found]):
                rows = found[group]
                before = _Before(self._unique)
                before.add(tier.known[left[rows[0]] : right[rows[0]]])
                seen[rows] |= [before.holds(*each) for each in _told(entries[rows])]
        return seen, met

    def _among_each_other(self, entries: Known, seen: Known) -> tuple[Known, Known]:
        """Which of those not seen come again here, and which have an id that does."""
        again = np.zeros(len(entries), dtype=bool)
        behind = np.zeros(len(entries), dtype=bool)
        fresh = np.flatnonzero(~seen)
        for group in _groups(entries["id"][fresh], least=2):
            before = _Before(self._unique)
            rows = fresh[group]
            for row, each in zip(rows, _told(entries[rows]), strict=True):
                if before.holds(*each):
                    again[row] = True
                    continue
                behind[row] = bool(before.digests)
                before.put(*each)
        return again, behind

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.npy"

    def _pause(self, seconds: float) -> float:
        """What a pause between two batches counts as; a clock may have been set back."""
        return min(max(seconds, 0.0), max(1.0, _PAUSE * self._horizon))

    def _add(self, entries: Known, at: float) -> None:
        if not len(entries):
            return
        fresh = _Tier(_sorted(entries), at)
        # Like a binary counter: only neighbours of a like size are merged.
        while self._tiers and len(self._tiers[-1].known) <= 2 * len(fresh.known):
            last = self._tiers.pop()
            fresh = _Tier(_sorted(np.concatenate([last.known, fresh.known])), at)
        self._tiers.append(fresh)

    def _forget(self) -> None:
        old = self._age - self._horizon
        self._tiers = [tier for tier in self._tiers if tier.newest >= old]
        for number in [n for n, at in self._files.items() if at < old]:
            self._path(number).unlink(missing_ok=True)
            del self._files[number]


class _Before:
    """Messages of one id; a producer may give the same to all of its own."""

    def __init__(self, unique: bool) -> None:
        self._unique = unique
        self.digests: dict[int, bool] = {}

    def add(self, entries: Known) -> None:
        for each in _told(entries):
            self.put(*each)

    def put(self, digest: int, redelivered: bool) -> None:
        self.digests[digest] = self.digests.get(digest, False) or redelivered

    def holds(self, digest: int, redelivered: bool) -> bool:
        """Whether this is one of them: the same payload, and either was delivered before."""
        known = self.digests.get(digest)
        return known is not None and (self._unique or known or redelivered)


def _told(entries: Known) -> Iterator[tuple[int, bool]]:
    return zip(entries["digest"].tolist(), entries["redelivered"].tolist(), strict=True)


def _groups(values: Known, least: int = 1) -> Iterator[Known]:
    """The indices of equal values, in order within each, where there are so many."""
    order = np.argsort(values, kind="stable")
    _, starts, counts = np.unique(values[order], return_index=True, return_counts=True)
    for at in np.flatnonzero(counts >= least):
        yield order[starts[at] : starts[at] + counts[at]]


def _sorted(entries: Known) -> Known:
    # By the key alone, as numbers: numpy's own sort by a field compares whole records, slowly.
    found: Known = entries[np.argsort(entries["id"], kind="stable")]
    return found


def _entries(rows: pa.Table, at: Known) -> Known:
    entries = np.empty(len(at), dtype=_DTYPE)
    entries["id"] = rows.column("id_hash").fill_null(0).to_numpy()[at]
    entries["digest"] = rows.column("digest").to_numpy()[at]
    entries["redelivered"] = rows.column("redelivered").to_numpy()[at]
    return entries
