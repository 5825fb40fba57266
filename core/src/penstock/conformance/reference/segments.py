"""A folder of segment files: a log that every machine has.

`<root>/<split>/<base>-<count>-<tag>.arrow` holds the records `base` to `base + count` of a split.
Names starting with a dot are nobody's business but ours: staged files, marks of finished batches.
"""

from __future__ import annotations

import fcntl
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from attrs import frozen

from penstock.contracts import ENVELOPE

STORED = pa.schema([f for f in ENVELOPE if f.name != "stamp"])
"""What a segment holds; the stamp follows from where a record lies."""

_NAME = re.compile(r"^(\d{20})-(\d+)-([0-9a-z]+)\.arrow$")


@frozen
class Segment:
    """The records `base` to `end` of a split; `tag` names the batch that wrote them."""

    split: str
    base: int
    count: int
    tag: str
    path: Path

    @property
    def end(self) -> int:
        return self.base + self.count


def listed(root: Path) -> dict[str, list[Segment]]:
    """The segments of each split, in order."""
    found: dict[str, list[Segment]] = {}
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        if folder.name.startswith(".") or not folder.is_dir():
            continue
        found[folder.name] = sorted(
            (
                Segment(folder.name, int(match[1]), int(match[2]), match[3], path)
                for path in folder.iterdir()
                if (match := _NAME.match(path.name))
            ),
            key=lambda segment: segment.base,
        )
    return found


class Staged:
    """A file that nobody sees yet, open for writing; each has a name of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        for each in (folder.parent, folder):  # never the root: it may be a mount that is away
            each.mkdir(exist_ok=True)
        self.path = folder / f"{name}-{uuid.uuid4().hex}.arrow"
        self.rows = 0
        self._file = pa.OSFile(str(self.path), "wb")
        self._writer = pa.ipc.new_file(self._file, STORED)

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)
        self.rows += rows.num_rows

    def close(self) -> None:
        self._writer.close()
        self._file.close()
        if self.path.exists():  # a batch that was discarded meanwhile has swept it away
            sync(self.path)


def publish(root: Path, split: str, staged: Path, count: int, tag: str) -> None:
    """Append a staged file to a split, at once and once: a second file of one tag is dropped.

    The caller holds `locked(root)`.
    """
    there = listed(root).get(split, [])
    if count == 0 or any(segment.tag == tag for segment in there):
        staged.unlink(missing_ok=True)
        return
    folder = root / split
    folder.mkdir(parents=True, exist_ok=True)
    base = there[-1].end if there else 0
    staged.rename(folder / f"{base:020d}-{count}-{tag}.arrow")
    sync(folder)


def append(root: Path, split: str, rows: pa.RecordBatch) -> None:
    """Append rows as one segment: what a producer other than our sink does."""
    staged = Staged(root / ".staging", "append")
    staged.write(rows.select(STORED.names).cast(STORED))
    staged.close()
    with locked(root):
        publish(root, split, staged.path, rows.num_rows, uuid.uuid4().hex)


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """One publisher at a time, over processes."""
    with (root / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
