"""Which messages came before: ids and payload digests of the last while, on disk and in memory.

Sixteen bytes and a flag a message, in sorted arrays that are merged as they grow, so that ten
million remembered ids take a few hundred megabytes and a batch is looked up whole.

Ids age only while messages come. What a broker delivers again comes after an outage, of the broker
or of the query, however long that was: it must not find its id forgotten meanwhile.
"""

from __future__ import annotations

import os
import time
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
        seen, excused = self._among_known(entries)
        again, kept = self._among_each_other(entries, seen)
        duplicate[named[seen | again]] = True
        return Found(duplicate, excused + kept, rows.num_rows - len(named))

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

    def _among_known(self, entries: Known) -> tuple[Known, int]:
        seen = np.zeros(len(entries), dtype=bool)
        excused = np.zeros(len(entries), dtype=bool)
        for tier in self._tiers:
            left = np.searchsorted(tier.known["id"], entries["id"], side="left")
            right = np.searchsorted(tier.known["id"], entries["id"], side="right")
            for row in np.flatnonzero(right > left):
                for old in tier.known[left[row] : right[row]]:
                    same = self._same(old, entries[row])
                    seen[row] |= same
                    excused[row] |= not same
        return seen, int((excused & ~seen).sum())

    def _among_each_other(self, entries: Known, seen: Known) -> tuple[Known, int]:
        again = np.zeros(len(entries), dtype=bool)
        values, counts = np.unique(entries["id"], return_counts=True)
        repeated = values[counts > 1]
        kept = 0
        for id_hash in repeated:
            firsts: list[Any] = []
            for row in np.flatnonzero(entries["id"] == id_hash):
                if seen[row]:
                    continue
                if any(self._same(first, entries[row]) for first in firsts):
                    again[row] = True
                    continue
                kept += bool(firsts)
                firsts.append(entries[row])
        return again, kept

    def _same(self, old: Any, new: Any) -> bool:
        if old["digest"] != new["digest"]:
            return False
        return bool(self._unique or old["redelivered"] or new["redelivered"])

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
