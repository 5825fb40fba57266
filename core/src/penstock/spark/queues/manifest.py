"""Manifests: which segments make a batch, decided once and the same at every replay."""

from __future__ import annotations

import json
import os
import re
import uuid
import zlib
from pathlib import Path
from typing import Any

from attrs import frozen

from penstock.contracts.durable import sync_folder
from penstock.contracts.errors import DataLossError, ReadError

_NAME = re.compile(r"\d+")


@frozen
class Entry:
    """One segment's part in a batch.

    Attributes:
        segment: Its name.
        rows: How many sound rows it has.
        skip: Rows that an earlier batch has already, or that failed.
        start: The first row of this part.
        stop: The row after its last; None: to the end.
    """

    segment: str
    rows: int
    skip: tuple[int, ...] = ()
    start: int = 0
    stop: int | None = None

    @property
    def end(self) -> int:
        """The row after the last."""
        return self.rows if self.stop is None else self.stop

    @property
    def kept(self) -> int:
        """How many rows Spark is given."""
        return self.end - self.start - len(self.skip)

    def cut(self, count: int) -> tuple[Entry, Entry | None]:
        """The first so many of its rows, and the rest."""
        if count >= self.kept:
            return self, None
        skip = set(self.skip)
        at = [row for row in range(self.start, self.end) if row not in skip][count]
        return self._between(self.start, at), self._between(at, self.end)

    def _between(self, start: int, stop: int) -> Entry:
        skip = tuple(row for row in self.skip if start <= row < stop)
        return Entry(self.segment, self.rows, skip, start, stop)

    def raw(self) -> list[Any]:
        """As it is written."""
        whole = self.start == 0 and self.stop is None
        body = [self.segment, self.rows, list(self.skip)]
        return body if whole else [*body, self.start, self.stop]

    @classmethod
    def parse(cls, raw: list[Any]) -> Entry:
        """Read what `raw` made."""
        segment, rows, skip, *part = raw
        return cls(segment, rows, tuple(skip), *part)


@frozen
class Manifest:
    """What batch `number` holds; `apart`: it is a piece of one that failed."""

    number: int
    entries: tuple[Entry, ...]
    apart: bool = False

    @property
    def rows(self) -> int:
        """How many rows Spark is given."""
        return sum(entry.kept for entry in self.entries)


class Manifests:
    """A folder of manifests, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def numbers(self) -> list[int]:
        """Those that exist, rising."""
        return sorted(int(name) for name in os.listdir(self._folder) if _NAME.fullmatch(name))

    def exists(self, number: int) -> bool:
        return (self._folder / str(number)).exists()

    def publish(self, manifest: Manifest) -> None:
        """Write it for good: by `link`, which only one process can win.

        Raises:
            ReadError: another query has planned this batch.
        """
        raw = {"number": manifest.number, "entries": [e.raw() for e in manifest.entries]}
        body = json.dumps({**raw, "apart": True} if manifest.apart else raw)
        draft = self._folder / f".{manifest.number}.{uuid.uuid4().hex}"
        with open(draft, "x", encoding="utf-8") as file:
            file.write(f"{zlib.crc32(body.encode()):08x}\n{body}\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, self._folder / str(manifest.number))
        except FileExistsError:
            raise ReadError(
                "another query plans batches in the same state folder",
                got=f"manifest {manifest.number} in {self._folder}",
                fix="stop one of them, or give each its own state",
            ) from None
        finally:
            draft.unlink()
        sync_folder(self._folder)

    def load(self, number: int) -> Manifest:
        """Read it back.

        Raises:
            DataLossError: it is gone or damaged.
        """
        path = self._folder / str(number)
        try:
            checksum, _, body = path.read_text(encoding="utf-8").partition("\n")
        except FileNotFoundError:
            raise _lost(path, "it is missing") from None
        body = body.rstrip("\n")
        if f"{zlib.crc32(body.encode()):08x}" != checksum:
            raise _lost(path, "its checksum is wrong")
        raw = json.loads(body)
        entries = tuple(Entry.parse(entry) for entry in raw["entries"])
        return Manifest(raw["number"], entries, raw.get("apart", False))

    def remove(self, number: int) -> None:
        (self._folder / str(number)).unlink(missing_ok=True)


def _lost(path: Path, why: str) -> DataLossError:
    return DataLossError(
        f"the manifest of a batch cannot be read: {why}",
        got=str(path),
        fix="restore the state folder together with the checkpoint; without it the batch cannot "
        "be replayed",
    )
