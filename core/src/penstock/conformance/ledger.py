"""A sink that keeps every attempt at every batch: what a replay is compared by.

`<path>/<batch>/<partition>-<unique>.arrows` is one attempt at a share, readable however it ended;
`<path>/<batch>/finished.json` names the attempts that count.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from attrs import frozen

from penstock.contracts import Batch, Promise, Receipt, Sink, Writer, option
from penstock.contracts import connector as configured
from penstock.contracts.points import reached

CHUNK = 50


@configured
class LedgerSink(Sink):
    """Keeps all attempts; reaches `ledger-write` after each 50 rows, `ledger-finished` at the end."""

    path: str = option(doc="Folder for the attempts.")

    def promise(self) -> Promise:
        return Promise(replay="idempotent", atomic="batch")

    def done(self, batch: Batch) -> bool:
        return (self._folder(batch) / "finished.json").exists()

    def open(self, batch: Batch, partition: int, attempt: int, schema: pa.Schema) -> Writer:
        return LedgerWriter(self._folder(batch), partition, schema)

    def finish(self, batch: Batch, receipts: Sequence[Receipt]) -> None:
        folder = self._folder(batch)
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps([receipt.payload["file"] for receipt in receipts])
        temporary = folder / f".finished-{uuid.uuid4().hex}"
        temporary.write_text(text)
        temporary.rename(folder / "finished.json")
        reached("ledger-finished", batch=batch.number)

    def _folder(self, batch: Batch) -> Path:
        return Path(self.path) / f"{batch.number:06d}"


class LedgerWriter(Writer):
    """Flushes each chunk before it says so: what was reached can be read."""

    def __init__(self, folder: Path, partition: int, schema: pa.Schema) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{partition}-{uuid.uuid4().hex}.arrows"
        self._file = self._path.open("wb")
        self._stream = pa.ipc.new_stream(self._file, schema)
        self._rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        for first in range(0, rows.num_rows, CHUNK):
            chunk = rows.slice(first, CHUNK)
            self._stream.write_batch(chunk)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._rows += chunk.num_rows
            reached("ledger-write", file=self._path.name)

    def close(self) -> Receipt:
        self._stream.close()
        self._file.close()
        return Receipt(rows=self._rows, payload={"file": self._path.name})

    def abort(self) -> None:
        self._file.close()


@frozen
class Attempt:
    """One attempt at one share of one batch."""

    batch: int
    partition: int
    finished: bool
    rows: pa.Table


def attempts(path: Path) -> list[Attempt]:
    """All attempts in the ledger, in the order of batches and partitions."""
    found = []
    for folder in sorted(path.iterdir()) if path.is_dir() else []:
        mark = folder / "finished.json"
        names = set(json.loads(mark.read_text())) if mark.exists() else set()
        for file in sorted(folder.glob("*.arrows")):
            partition = int(file.name.split("-")[0])
            found.append(Attempt(int(folder.name), partition, file.name in names, _read(file)))
    return sorted(found, key=lambda each: (each.batch, each.partition))


def _read(file: Path) -> pa.Table:
    """What an attempt wrote, as far as it came."""
    batches: list[pa.RecordBatch] = []
    try:
        with pa.OSFile(str(file)) as opened, pa.ipc.open_stream(opened) as stream:
            for rows in stream:
                batches.append(rows)  # one by one: what came before a torn end counts
            return pa.Table.from_batches(batches, schema=stream.schema)
    except (pa.ArrowInvalid, OSError):
        return pa.Table.from_batches(batches) if batches else pa.table({})
