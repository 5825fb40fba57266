"""Exactly once by batch: temporary names, a manifest that decides, renames that can be repeated.

Below the target's root, out of every reader's sight:

    .penstock/<query and node>/tmp/<batch>/<partition>-<attempt>-<random>   data not yet published
    .penstock/<query and node>/<batch>.json     the manifest: this attempt is the batch, for ever
    .penstock/<query and node>/<batch>.done     the same, once every file has its final name
    .penstock/<query and node>/floor            batches up to this number are done; manifests gone

A batch without a manifest never happened: its temporary files are swept. A batch with one is
decided: whoever comes next gives the files their names, if the first one could not.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
import uuid
from collections.abc import Sequence

from attrs import frozen

from penstock.contracts import Batch, Receipt
from penstock.contracts.errors import EphemeralError, WriteError
from penstock.contracts.points import reached
from penstock_localfile.engine.names import hidden, safe, shown, unshown
from penstock_localfile.engine.storage import (
    Storage,
    left_by_a_copy,
    read_whole,
    write_atomically,
)

log = logging.getLogger("penstock.localfile")
HOME = b".penstock"
_KEPT = 1000
_DAY = 86400.0


@frozen
class Published:
    """One file on its way: it travels in receipts and manifests, as text.

    Attributes:
        temporary: Where it is.
        final: Where it goes.
        rows: How many rows it holds.
        size: In bytes.
        modified: The modification time to give it, in nanoseconds; 0: leave it.
        replace: A file of this name may be there already, and is replaced.
    """

    temporary: str
    final: str
    rows: int
    size: int = 0
    modified: int = 0
    replace: bool = False

    def as_json(self) -> dict[str, object]:
        """For a receipt's payload."""
        return {
            "temporary": self.temporary,
            "final": self.final,
            "rows": self.rows,
            "size": self.size,
            "modified": self.modified,
            "replace": self.replace,
        }


@frozen
class Publisher:
    """Publishes the batches of one sink below one root. A value; picklable."""

    storage: Storage
    sweep_age: float = _DAY

    def done(self, batch: Batch) -> bool:
        """Whether every file of the batch has its final name.

        A batch that is only decided says no: its tasks write once more, and `finish`, which is
        called only then, finishes the first attempt and drops the second.
        """
        if self.storage.stat(self._done(batch)) is not None:
            return True
        floor = self._home(batch) + b"/floor"
        if self.storage.stat(floor) is None:
            return False
        return batch.number <= int(read_whole(self.storage, floor))

    def begin(self, batch: Batch) -> bool:
        """Whether the batch is already published; finishes a published one, sweeps the dead."""
        home = self._home(batch)
        if self._decided(batch):
            return True
        self._sweep(batch)
        if batch.number == 0:
            self._sweep_strangers(home)
        return False

    def temporary(self, batch: Batch, partition: int, attempt: int) -> bytes:
        """A name no other attempt has."""
        unique = uuid.uuid4().hex
        return self._tmp(batch) + f"/{partition}-{attempt}-{unique}".encode()

    def remove(self, temporary: bytes) -> None:
        """Remove a temporary file of an attempt that gives up; a server that is gone is borne."""
        try:
            self.storage.remove(temporary)
        except EphemeralError as error:
            log.warning("%s is left to be swept: %s", shown(temporary), error.message)

    def finish(self, batch: Batch, receipts: Sequence[Receipt]) -> None:
        """Decide the batch by its manifest, then name its files; once decided, only the latter."""
        if self._decided(batch):
            self._drop(receipts)
            return
        files = [Published(**f) for receipt in receipts for f in receipt.payload.get("files", [])]
        finals = [unshown(file.final) for file in files]
        _refuse_twins(files, flat=self.storage.flat)
        replaced = self._visible() if batch.overwrite else []
        if not batch.overwrite:
            self._refuse_overwriting([unshown(f.final) for f in files if not f.replace])
        manifest = {
            "key": batch.key,
            "pipeline": batch.ctx.pipeline,
            "files": [file.as_json() for file in files],
            "replaced": [shown(path) for path in replaced if path not in set(finals)],
        }
        write_atomically(
            self.storage,
            self._manifest(batch),
            json.dumps(manifest, ensure_ascii=True).encode(),
            temporary=self._tmp(batch) + b"/manifest-" + uuid.uuid4().hex.encode(),
        )
        reached("manifest-written", batch=batch.number)
        self._roll_forward(batch)
        if batch.number and batch.number % _KEPT == 0:
            self._forget(batch)

    def discard(self, batch: Batch, receipts: Sequence[Receipt]) -> None:
        """Remove what the tasks of a failed batch left, unless the batch is decided."""
        if self.storage.stat(self._manifest(batch)) is None:
            self._drop(receipts)
            self.storage.remove_folder(self._tmp(batch))

    def _decided(self, batch: Batch) -> bool:
        if self.storage.stat(self._manifest(batch)) is not None:
            self._roll_forward(batch, again=True)
            return True
        return self.done(batch)

    def _roll_forward(self, batch: Batch, *, again: bool = False) -> None:
        manifest = json.loads(read_whole(self.storage, self._manifest(batch)))
        folders = set()
        for facts in manifest["files"]:
            file = Published(**facts)
            temporary, final = unshown(file.temporary), unshown(file.final)
            # Not there any more: an earlier attempt at this has given it its name.
            if self.storage.stat(temporary) is not None:
                if again and left_by_a_copy(self.storage, temporary, self.storage, final):
                    # Named already: a reader that has it must not see it change once more.
                    self.storage.remove(temporary)
                    continue
                if file.modified:
                    self.storage.keep_times(temporary, file.modified)
                self.storage.rename(temporary, final)
                folders.add(final.rpartition(b"/")[0])
                reached("file-published", file=file.final)
        self.storage.sync(sorted(folders))
        for name in manifest["replaced"]:
            self.storage.remove(unshown(name))
        self.storage.rename(self._manifest(batch), self._done(batch))
        self._sweep(batch)

    def _sweep(self, batch: Batch) -> None:
        """Remove temporary files of this and earlier batches: none of them is decided."""
        tmp = self._home(batch) + b"/tmp"
        for folder in self.storage.folders(tmp):
            if folder.isdigit() and int(folder) <= batch.number:
                self.storage.remove_folder(tmp + b"/" + folder)

    def _drop(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            for file in receipt.payload.get("files", []):
                self.storage.remove(unshown(file["temporary"]))

    def _refuse_overwriting(self, finals: list[bytes]) -> None:
        for final in finals:
            if self.storage.stat(final) is not None:
                raise WriteError(
                    "a file of this name is already there",
                    got=shown(final),
                    fix="put {query}, {batch} and {partition} into file_name",
                )

    def _visible(self) -> list[bytes]:
        return [
            entry.path
            for entry in self.storage.walk()
            if not any(hidden(name) for name in entry.path.split(b"/"))
        ]

    def _forget(self, batch: Batch) -> None:
        """Replace manifests far behind by one number."""
        home = self._home(batch)
        floor = batch.number - _KEPT
        write_atomically(
            self.storage,
            home + b"/floor",
            str(floor).encode(),
            temporary=home + b"/tmp/floor-" + uuid.uuid4().hex.encode(),
        )
        for entry in self.storage.walk(home, recursive=False):
            name = entry.path.rpartition(b"/")[2]
            if name.endswith(b".done") and int(name[:-5]) <= floor:
                self.storage.remove(entry.path)

    def _sweep_strangers(self, home: bytes) -> None:
        """Remove temporary files of other queries that nobody has touched for long."""
        oldest = (time.time() - self.sweep_age) * 1e9
        for folder in self.storage.folders(HOME):
            place = HOME + b"/" + folder
            if place == home:
                continue
            for entry in self.storage.walk(place + b"/tmp"):
                decided = self._manifest_beside(place, entry.path)
                if entry.modified < oldest and self.storage.stat(decided) is None:
                    log.info("sweeping %s, left by a dead attempt", shown(entry.path))
                    self.storage.remove(entry.path)

    @staticmethod
    def _manifest_beside(place: bytes, temporary: bytes) -> bytes:
        number = temporary[len(place) + len(b"/tmp/") :].partition(b"/")[0]
        return place + b"/" + number + b".json"

    def _home(self, batch: Batch) -> bytes:
        if not batch.ctx.query:
            raise WriteError(
                "the batch has no query id, so a replay could not be told from a new batch",
                fix="write through a pipeline or a Spark version that tells the query id",
            )
        plain = re.sub(r"[^A-Za-z0-9-]+", "_", f"{batch.ctx.query}/{batch.ctx.node}")[:100]
        return HOME + b"/" + f"{plain}-{short_id(batch)}".encode()

    def _tmp(self, batch: Batch) -> bytes:
        return self._home(batch) + b"/tmp/" + _digits(batch)

    def _manifest(self, batch: Batch) -> bytes:
        return self._home(batch) + b"/" + _digits(batch) + b".json"

    def _done(self, batch: Batch) -> bytes:
        return self._home(batch) + b"/" + _digits(batch) + b".done"


def short_id(batch: Batch) -> str:
    """A short name for this sink of this query: the same over restarts."""
    named = f"{batch.ctx.query}/{batch.ctx.node}"
    return hashlib.blake2b(named.encode(), digest_size=6).hexdigest()


def _digits(batch: Batch) -> bytes:
    return f"{batch.number:012d}".encode()


def _refuse_twins(files: Sequence[Published], *, flat: bool) -> None:
    finals = [safe(unshown(file.final)) for file in files]
    seen: set[bytes] = set()
    for file, final in zip(files, finals, strict=True):
        if final in seen:
            raise WriteError(
                "two files of one batch would get the same name",
                got=file.final,
                fix="let file_name tell inputs apart: {path}, or {folder} and {name}"
                if file.replace
                else "put {partition} and, when rolling, {roll} into file_name",
            )
        seen.add(final)
    for final in [] if flat else finals:
        folder = final
        while folder := folder.rpartition(b"/")[0]:
            if folder in seen:
                raise WriteError(
                    "one file of a batch would get the name of another one's folder",
                    got=f"{shown(folder)}, and {shown(final)}",
                    fix="let file_name tell them apart, as {path}.out does",
                )
