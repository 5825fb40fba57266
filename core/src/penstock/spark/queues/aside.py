"""Messages that fail every batch, on disk: each in a segment of its own, under `poison`.

A pipeline makes dead letters of them; for a plain `readStream` they stay there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from penstock.contracts.envelope import ENVELOPE
from penstock.spark.commitlog import local_path
from penstock.spark.queues.segments import SegmentWriter, read, segments

log = logging.getLogger("penstock.queues")

ASIDE = pa.schema([*ENVELOPE, pa.field("failed", pa.int32())])
"""An envelope, and how many failed batches it was in, as far as they were counted."""


class Aside:
    """What one reader sets aside.

    Args:
        folder: the node's state folder.
    """

    def __init__(self, folder: Path) -> None:
        self._kept = folder / "poison"
        self._drafts = folder / "poison-drafts"
        self.count = 0

    def put(self, row: pa.RecordBatch, failed: int) -> None:
        """Set one message aside; when this returns it is durable."""
        for each in (self._kept, self._drafts):
            each.mkdir(parents=True, exist_ok=True)
        columns = [row.column(name) for name in ENVELOPE.names]
        noted = pa.RecordBatch.from_arrays([*columns, pa.array([failed], pa.int32())], schema=ASIDE)
        made = SegmentWriter(self._drafts, self._kept, 0).write([noted])
        self.count += 1
        log.error(
            "the message %s failed %d batches, at last alone, and is set aside in %s",
            row.column("id")[0].as_py() or "without an id",
            failed,
            self._kept / made.name,
        )


def kept(folder: Path) -> Iterator[tuple[Path, pa.Table]]:
    """What lies aside in a node's state folder, the oldest first, each with its file."""
    for segment in segments(folder / "poison"):
        path = folder / "poison" / segment.name
        yield path, read(path).rows


def set_aside(location: str) -> list[pa.Table]:
    """The poison messages of a state folder, one table each, the oldest first."""
    return [rows for _, rows in kept(Path(local_path(location) or location))]
