"""Spooled batches that fail again and again: taken apart until the guilty message is alone.

A batch of segments is replayed as it was, so a message that fails it fails it for ever. How often
a batch was begun again is counted on disk. Past the limit its next replay is empty, and its rows
come in smaller batches after it; one of those that fails is taken apart in its turn, and a
single message that fails is set aside in the `poison` folder.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.contracts.durable import sync_folder
from penstock.spark.queues.aside import Aside
from penstock.spark.queues.manifest import Entry, Manifest

log = logging.getLogger("penstock.queues")

PIECES = 16


class Apart:
    """What is known of failed batches. Used by the thread that plans.

    Args:
        folder: the spool's.
        limit: how often a whole batch may fail; 0: for ever.
        known: the manifests that are there.
    """

    def __init__(self, folder: Path, limit: int, known: Sequence[Manifest]) -> None:
        self._folder = folder
        self._limit = limit
        self._replays: dict[int, int] = {}
        self._emptied: set[int] = set()
        self._pieces: list[tuple[Entry, ...]] = []
        self._begun: set[int] = set()
        self._aside = Aside(folder)
        self._load()
        # A process that died between a manifest and this file has left the piece in both.
        taken = {manifest.entries for manifest in known if manifest.apart}
        self._pieces = [piece for piece in self._pieces if piece not in taken]

    @property
    def count(self) -> int:
        """How many messages this process has set aside."""
        return self._aside.count

    def waiting(self) -> int:
        """How many rows wait for a smaller batch."""
        return sum(entry.kept for piece in self._pieces for entry in piece)

    def segments(self) -> set[str]:
        """What must stay in the inbox for them."""
        return {entry.segment for piece in self._pieces for entry in piece}

    def next(self) -> tuple[Entry, ...] | None:
        """The rows of the next smaller batch, if there is one."""
        return self._pieces[0] if self._pieces else None

    def taken(self) -> None:
        """A manifest holds what `next` gave."""
        self._pieces.pop(0)
        self._save()

    def made(self, number: int) -> None:
        """This process has planned the batch: its first run is no replay."""
        self._begun.add(number)

    def done(self, number: int) -> None:
        """Batches up to this number did not fail."""
        gone = {n for n in {*self._replays, *self._emptied} if n < number}
        gone |= {number} & set(self._replays)
        if gone:
            self._replays = {n: c for n, c in self._replays.items() if n not in gone}
            self._emptied -= {n for n in gone if n < number}
            self._save()

    def failed(self, manifest: Manifest) -> bool:
        """Note that a batch begins, before it can fail; True if it has failed too often."""
        if manifest.number in self._emptied:
            return False
        if self._limit == 0 or manifest.number in self._begun:
            return False
        self._begun.add(manifest.number)
        count = self._replays[manifest.number] = self._replays.get(manifest.number, 0) + 1
        self._save()
        # A piece has a bad past, but its first death may be someone else's fault.
        return count >= (min(2, self._limit) if manifest.apart else self._limit)

    def emptied(self, number: int) -> bool:
        """Whether a batch was taken apart: it has no rows any more."""
        return number in self._emptied

    def split(self, manifest: Manifest, rows: Sequence[pa.Table]) -> None:
        """Let smaller batches have a failed one's rows; set aside a row that failed alone.

        Args:
            manifest: the failed batch.
            rows: what it holds, with what the spool notes of each row.
        """
        left = sum(table.num_rows for table in rows)
        if left == 1:
            (row,) = (batch for table in rows for batch in table.to_batches() if batch.num_rows)
            # A piece was part of a batch that had reached the limit; pieces between may be more.
            before = self._limit if manifest.apart else 0
            self._aside.put(row, before + self._replays[manifest.number])
        else:
            pieces = list(_pieces(manifest.entries, -(-left // PIECES)))
            self._pieces = [*pieces, *self._pieces]
            log.warning(
                "batch %d failed %d times; its %d messages come again in %d smaller batches",
                manifest.number, self._replays.get(manifest.number, 1), left, len(pieces),
            )  # fmt: skip
        self._emptied.add(manifest.number)
        self._replays.pop(manifest.number, None)
        self._save()

    def _load(self) -> None:
        path = self._folder / "apart.json"
        if not path.exists():
            return
        raw = json.loads(path.read_text(encoding="utf-8"))
        self._replays = {int(number): count for number, count in raw["replays"].items()}
        self._emptied = set(raw["emptied"])
        self._pieces = [tuple(Entry.parse(e) for e in piece) for piece in raw["pieces"]]

    def _save(self) -> None:
        raw = {
            "replays": self._replays,
            "emptied": sorted(self._emptied),
            "pieces": [[entry.raw() for entry in piece] for piece in self._pieces],
        }
        draft = self._folder / ".apart.json"
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(raw, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, self._folder / "apart.json")
        sync_folder(self._folder)


def _pieces(entries: Sequence[Entry], most: int) -> Iterator[tuple[Entry, ...]]:
    """The same rows in the same order, in groups of so many."""
    group: list[Entry] = []
    room = most
    for entry in entries:
        rest: Entry | None = entry
        while rest is not None and rest.kept:
            first, rest = rest.cut(room)
            group.append(first)
            room -= first.kept
            if room == 0:
                yield tuple(group)
                group, room = [], most
    if group:
        yield tuple(group)
