"""The folder that pessimistic delivery keeps: segments, manifests, ids.

spool.json    which spool this is
lock          held by the one process that plans
drafts/       segments being written
inbox/        segments, planned or not
manifests/    which segments make which batch
ids/          what was received lately
corrupt/      segments with a record that failed its checksum
poison/       messages that fail every batch
apart.json    batches that failed, and what is left of them
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.contracts.durable import sync_folder
from penstock.contracts.errors import DataLossError, OptionError, PositionError, ReadError
from penstock.contracts.points import reached
from penstock.contracts.source import Limit
from penstock.spark.commitlog import local_path
from penstock.spark.queues import segments as seg
from penstock.spark.queues.apart import Apart
from penstock.spark.queues.dedup import Memory
from penstock.spark.queues.manifest import Entry, Manifest, Manifests
from penstock.spark.queues.segments import Segment

log = logging.getLogger("penstock.queues")

LOCK_WITHIN = 30.0
"""A reader that Spark is just ending needs a moment to let go."""
DRAFT_AGE = 3600.0


class Folders:
    """Where the parts of a spool are; makes them."""

    def __init__(self, location: str) -> None:
        path = local_path(location)
        if path is None:
            raise OptionError(
                "the spool needs a filesystem with durable rename and create-if-absent",
                expected="a local folder",
                got=location,
                fix="set state to a folder on a local or shared disk",
            )
        self.root = Path(path)
        try:
            for name in ("drafts", "inbox", "manifests", "ids", "corrupt"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ReadError(
                f"the spool's folder cannot be made: {error.strerror}",
                got=str(error.filename),
                fix="set state to a folder that can be written",
            ) from error

    def __truediv__(self, name: str) -> Path:
        return self.root / name

    def size(self) -> int:
        """Bytes of all segments in the inbox."""
        total = 0
        with os.scandir(self.root / "inbox") as entries:
            for entry in entries:
                try:
                    total += entry.stat().st_size
                except FileNotFoundError:
                    continue
        return total


class Spool:
    """Plans batches out of segments. One process at a time; one thread at a time."""

    def __init__(self, location: str, horizon: float, unique: bool, poison: int = 0) -> None:
        self.folders = Folders(location)
        self._lock = _owned(self.folders / "lock")
        self.name = self._identity()
        self._manifests = Manifests(self.folders / "manifests")
        self._memory = Memory(self.folders / "ids", horizon, unique)
        self._assigned: dict[int, tuple[str, ...]] = {}
        self._mine: set[int] = set()
        self._fresh: tuple[int, list[pa.RecordBatch]] | None = None
        self.planned = 0
        self._unique = unique
        self.duplicates = self.same_id = self.nameless = self.torn = 0
        known = [self._manifests.load(number) for number in self._manifests.numbers()]
        for held in known:
            self._assigned[held.number] = tuple(entry.segment for entry in held.entries)
        self._apart = Apart(self.folders.root, poison, known)
        self._memory.load(max(self._assigned, default=0))
        self._sweep_drafts()

    def close(self) -> None:
        """Let another process plan."""
        os.close(self._lock)

    def offset(self, number: int) -> dict[str, object]:
        """A batch's end as Spark's log keeps it."""
        return {"m": number, "s": self.name}

    def number(self, offset: dict[str, object]) -> int:
        """The manifest an offset names.

        Raises:
            PositionError: it belongs to another spool.
        """
        if offset.get("m") == 0 and "s" not in offset:
            return 0
        number = offset.get("m")
        if offset.get("s") != self.name or not isinstance(number, int):
            raise PositionError(
                "the checkpoint belongs to another spool",
                expected=f"a position of spool {self.name} in {self.folders.root}",
                got=repr(offset),
                fix="set state to the folder this checkpoint was used with",
            )
        return number

    def waiting(self) -> list[Segment]:
        """Segments that no batch has, in order of arrival."""
        taken = {name for names in self._assigned.values() for name in names}
        taken |= self._apart.segments()
        return [s for s in seg.segments(self.folders / "inbox") if s.name not in taken]

    def ready(self) -> int:
        """How many rows no batch has."""
        return self._apart.waiting() + sum(segment.rows for segment in self.waiting())

    def fills(self, limit: Limit) -> bool:
        """Whether the rows that no batch has are as much as this, by number or by size."""
        rows, size = self._apart.waiting(), 0
        for segment in self.waiting():
            rows += segment.rows
            size += (self.folders / "inbox" / segment.name).stat().st_size
            if limit.bytes is not None and size >= limit.bytes:
                return True
        return limit.rows is not None and rows >= limit.rows

    @property
    def poison(self) -> int:
        """How many messages this process has set aside."""
        return self._apart.count

    def plan(self, after: int, limit: Limit) -> int:
        """The number of the batch after `after`: one that a killed process left, or a new one.

        Nothing to plan: `after`.

        Raises:
            ReadError: another process plans here too.
            PositionError: the first batch is asked for, and the folder is past it.
        """
        number = after + 1
        if after == 0:
            self._belongs_to_a_new_checkpoint()
        if number in self._assigned:
            return number
        if self._manifests.exists(number) and number not in self._mine:
            raise ReadError(
                "another query plans batches in the same state folder",
                got=f"manifest {number} in {self.folders.root}",
                fix="stop one of them, or give each its own state",
            )
        if (piece := self._apart.next()) is not None:
            self._publish(Manifest(number, piece, apart=True))
            self._apart.taken()
            self.planned += sum(entry.kept for entry in piece)
            return number
        chosen = self._choose(limit)
        if not chosen:
            return after
        self._make(number, chosen)
        return number

    def rows(self, after: int, upto: int) -> list[pa.RecordBatch]:
        """The rows of the batches after one number up to another: the same at every replay.

        Raises:
            DataLossError: a segment or manifest is gone or damaged.
        """
        found: list[pa.RecordBatch] = []
        for number in range(after + 1, upto + 1):
            if self._fresh is not None and self._fresh[0] == number:
                found.extend(self._fresh[1])
                continue
            manifest = self._manifests.load(number)
            failed = self._apart.failed(manifest)
            if self._apart.emptied(number):
                continue
            tables = [_kept(self._entry_rows(e, number), e) for e in manifest.entries]
            if failed:
                self._apart.split(manifest, tables)
            else:
                found.extend(batch for table in tables for batch in _batches(table))
        return found

    def durable(self, number: int) -> None:
        """Every sink has the batches up to this number: their segments may go."""
        needed = {name for n, names in self._assigned.items() if n > number for name in names}
        needed |= self._apart.segments()
        for done in sorted(n for n in self._assigned if n <= number):
            for name in self._assigned[done]:
                if name not in needed:
                    (self.folders / "inbox" / name).unlink(missing_ok=True)
            if done < number:
                self._manifests.remove(done)
                del self._assigned[done]
            else:
                self._assigned[done] = ()
        self._apart.done(number)
        if self._fresh is not None and self._fresh[0] <= number:
            self._fresh = None

    def _belongs_to_a_new_checkpoint(self) -> None:
        """The first batch may be there, not logged yet; not others, nor that it was committed."""
        inbox = self.folders / "inbox"
        gone = [name for name in self._assigned.get(1, ()) if not (inbox / name).exists()]
        if gone or max(self._assigned, default=0) > 1:
            raise PositionError(
                "the state folder belongs to another checkpoint: this one is new",
                expected="a folder without batches",
                got=f"batches up to {max(self._assigned)} in {self.folders.root}",
                fix="go on with the checkpoint that the folder was used with, or set another "
                "state; what inbox/ holds is acknowledged and nowhere else",
            )

    def _choose(self, limit: Limit) -> list[tuple[Segment, pa.Table]]:
        chosen: list[tuple[Segment, pa.Table]] = []
        rows = size = 0
        for segment in self.waiting():
            if chosen and limit.rows is not None and rows + segment.rows > limit.rows:
                break
            path = self.folders / "inbox" / segment.name
            weight = path.stat().st_size
            if chosen and limit.bytes is not None and size + weight > limit.bytes:
                break
            chosen.append((segment, self._sound(segment)))
            rows += segment.rows
            size += weight
        return chosen

    def _sound(self, segment: Segment) -> pa.Table:
        """A segment's rows; what follows a bad record is cut off, kept aside and told."""
        path = self.folders / "inbox" / segment.name
        found = seg.read(path)
        if not found.torn:
            return found.rows
        aside = self.folders / "corrupt" / segment.name
        if not aside.exists():
            os.link(path, aside)
            self.torn += 1
            log.error(
                "%s: a record fails its checksum; %d of %d rows are sound. What the broker had "
                "not got an acknowledgement for comes again; the file is kept as %s",
                path, found.rows.num_rows, segment.rows, aside,
            )  # fmt: skip
        return found.rows

    def _make(self, number: int, chosen: list[tuple[Segment, pa.Table]]) -> None:
        together = pa.concat_tables([table for _, table in chosen])
        found = self._memory.look(together)
        entries: list[Entry] = []
        batches: list[pa.RecordBatch] = []
        at = 0
        for segment, table in chosen:
            mask = found.duplicate[at : at + table.num_rows]
            skip = tuple(int(row) for row in mask.nonzero()[0])
            entry = Entry(segment.name, table.num_rows, skip)
            entries.append(entry)
            batches.extend(_batches(_kept(table, entry)))
            at += table.num_rows
        self._memory.remember(number, together, found.duplicate)
        self._publish(Manifest(number, tuple(entries)))
        self._fresh = (number, batches)
        repeated = int(found.duplicate.sum())
        self.planned += together.num_rows - repeated
        self.duplicates += repeated
        if found.same_id:
            self.same_id += found.same_id
            log.warning(
                "%d messages have the id of another that is not the same; all are kept",
                found.same_id,
            )

        if found.nameless and self._unique and not self.nameless:
            log.warning(
                "unique_ids is set, but %d messages of a batch have no id: these may come twice",
                found.nameless,
            )
        self.nameless += found.nameless

    def _publish(self, manifest: Manifest) -> None:
        self._mine.add(manifest.number)
        self._apart.made(manifest.number)
        self._manifests.publish(manifest)
        reached("manifest-written", number=manifest.number)
        self._assigned[manifest.number] = tuple(entry.segment for entry in manifest.entries)

    def _entry_rows(self, entry: Entry, number: int) -> pa.Table:
        path = self.folders / "inbox" / entry.segment
        try:
            table = seg.read(path).rows
        except FileNotFoundError:
            table = None
        if table is None or table.num_rows < entry.rows:
            raise DataLossError(
                f"a segment of batch {number} is gone or damaged",
                expected=f"{entry.rows} rows in {path}",
                got="no file" if table is None else f"{table.num_rows} sound rows",
                fix="restore the state folder together with the checkpoint",
            )
        return table.slice(0, entry.rows)

    def _identity(self) -> str:
        path = self.folders / "spool.json"
        if not path.exists():
            draft = self.folders / f".spool.{uuid.uuid4().hex}"
            with open(draft, "x", encoding="utf-8") as file:
                json.dump({"spool": uuid.uuid4().hex}, file)
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, path)
            sync_folder(self.folders.root)
        return str(json.loads(path.read_text(encoding="utf-8"))["spool"])

    def _sweep_drafts(self) -> None:
        for path in (self.folders / "drafts").iterdir():
            try:
                if time.time() - path.stat().st_mtime > DRAFT_AGE:
                    path.unlink()
            except FileNotFoundError:
                continue  # its writer finished it just now


def _kept(table: pa.Table, entry: Entry) -> pa.Table:
    """The rows of an entry, with what the spool notes of each."""
    if entry.skip:
        mask = np.ones(table.num_rows, dtype=bool)
        mask[list(entry.skip)] = False
        mask = mask[entry.start : entry.end]
        return table.slice(entry.start, entry.end - entry.start).filter(pa.array(mask))
    return table.slice(entry.start, entry.end - entry.start)


def _batches(table: pa.Table) -> list[pa.RecordBatch]:
    """The rows as Spark is given them."""
    rows = table.drop_columns(["redelivered", "id_hash", "digest"])
    return [batch for batch in rows.to_batches() if batch.num_rows]


def _owned(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + LOCK_WITHIN
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(handle)
                raise ReadError(
                    "another query uses the same state folder",
                    got=str(path.parent),
                    fix="stop one of them, or give each its own state",
                ) from None
            time.sleep(0.1)
