"""Messages that a queue's reader has set aside become dead letters of the batch that follows.

The reader has them on disk before it leaves them out of a batch, and that batch publishes them
before it is committed: the broker is told only after that, and a replay publishes the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from attrs import field, frozen

from penstock.contracts.envelope import ENVELOPE, ERROR, pen, undecoded
from penstock.pipeline.work import one_row
from penstock.spark.deadletters import DeadLetters
from penstock.spark.letters import Letters
from penstock.spark.queues.aside import kept


@frozen
class Poisoned:
    """The letters of one batch that were set aside.

    Attributes:
        files: What is to be published, by who wrote it.
        counts: How many there are, by node.
        segments: Where they came from.
    """

    files: dict[str, list[str]] = field(factory=dict)
    counts: dict[str, int] = field(factory=dict)
    segments: list[Path] = field(factory=list)

    def published(self) -> None:
        """The letters count: what they were made of may go."""
        for path in self.segments:
            path.unlink()


def poisoned(folders: Mapping[str, str], letters: DeadLetters, batch: int) -> Poisoned:
    """Write what lies aside as letters of a batch.

    Args:
        folders: The state folders of the queues, by node.
        letters: Where letters are kept.
        batch: The batch that publishes them.
    """
    found = Poisoned()
    for node, folder in folders.items():
        for path, rows in kept(Path(folder)):
            # Each under its own name: a replay may find only those that have come since.
            written = Letters(str(letters.folder), batch, letters.series)
            for row in rows.to_batches():
                written.add(_failed(row, node))
                found.counts[node] = found.counts.get(node, 0) + row.num_rows
            found.files[f"{node} {path.name}"] = list(written.close())
            found.segments.append(path)
    return found


def _failed(row: pa.RecordBatch, node: str) -> pa.RecordBatch:
    """A message set aside, in the form of a row that failed at its source."""
    got = undecoded(row.select(ENVELOPE.names))
    failed = row.column("failed")[0].as_py()
    error = {
        "node": node,
        "kind": "Poison",
        "message": f"was in {failed} batches, and all failed, at last with it alone",
        "traceback": None,
        "original": row.column("value")[0].as_py(),
        "input": one_row(got),
        "attempt": failed,
        "at": datetime.now(UTC),
    }
    envelope = {name: row.column(name) for name in ("key", "headers", "id", "stamp")}
    meta = pen(1, error=pa.array([error], ERROR), **envelope)
    return pa.RecordBatch.from_arrays([row.column("event_time"), meta], ["event_time", "_pen"])
