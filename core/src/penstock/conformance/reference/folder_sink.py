"""A sink that appends segments to a folder: staged by tasks, published by the driver."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from penstock.conformance.reference.segments import STORED, Staged, listed, locked, publish, sync
from penstock.contracts import Batch, Promise, Receipt, Sink, Writer, option
from penstock.contracts import connector as configured
from penstock.contracts.envelope import column
from penstock.contracts.errors import EphemeralWriteError, SchemaError


@configured
class FolderSink(Sink):
    """Appends to the splits of a folder; partition n of a write goes to split n."""

    path: str = option(doc="Folder to append to; it must be there.")

    def promise(self) -> Promise:
        return Promise(replay="idempotent", atomic="task")

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        if "value" not in schema.names:
            raise SchemaError(
                "a folder takes bytes",
                expected="a column named value",
                got=", ".join(schema.names),
                fix="encode the rows first",
            )
        kept = [f for f in schema if f.name in STORED.names or f.name == "_pen"]
        return pa.schema([STORED.field(f.name) if f.name in STORED.names else f for f in kept])

    def done(self, batch: Batch) -> bool:
        return self._mark(batch).exists()

    def begin(self, batch: Batch) -> bool:
        shutil.rmtree(self._staging(batch), ignore_errors=True)
        return self.done(batch)

    def open(self, batch: Batch, partition: int, attempt: int, schema: pa.Schema) -> Writer:
        self.check()
        return FolderWriter(self._staging(batch), partition, attempt)

    def finish(self, batch: Batch, receipts: Sequence[Receipt]) -> None:
        self.check()
        root = Path(self.path)
        with locked(root):
            if batch.overwrite and not self.done(batch):
                for segment in [s for each in listed(root).values() for s in each]:
                    if segment.tag != _tag(batch):
                        segment.path.unlink()
            for receipt in receipts:
                staged = Path(receipt.payload["staged"])
                publish(root, str(receipt.partition), staged, receipt.rows, _tag(batch))
            self._mark(batch).parent.mkdir(exist_ok=True)
            self._mark(batch).touch()
            sync(self._mark(batch).parent)
        shutil.rmtree(self._staging(batch), ignore_errors=True)

    def discard(self, batch: Batch, receipts: Sequence[Receipt]) -> None:
        shutil.rmtree(self._staging(batch), ignore_errors=True)

    def check(self) -> None:
        if not Path(self.path).is_dir():
            raise EphemeralWriteError(
                "the folder is not there", got=self.path, fix="create it; or is it a mount?"
            )

    def _staging(self, batch: Batch) -> Path:
        return Path(self.path) / ".staging" / _tag(batch)

    def _mark(self, batch: Batch) -> Path:
        return Path(self.path) / ".done" / _tag(batch)


class FolderWriter(Writer):
    """Writes a file of its own, so that attempts never meet."""

    def __init__(self, staging: Path, partition: int, attempt: int) -> None:
        self._staged = Staged(staging, f"{partition}-{attempt}")

    def write(self, rows: pa.RecordBatch) -> None:
        columns = [column(rows, f.name) for f in STORED]
        whole = [
            pa.nulls(rows.num_rows, f.type) if array is None else array.cast(f.type)
            for f, array in zip(STORED, columns, strict=True)
        ]
        self._staged.write(pa.RecordBatch.from_arrays(whole, schema=STORED))

    def close(self) -> Receipt:
        self._staged.close()
        return Receipt(rows=self._staged.rows, payload={"staged": str(self._staged.path)})

    def abort(self) -> None:
        self._staged.close()
        self._staged.path.unlink(missing_ok=True)


def _tag(batch: Batch) -> str:
    return hashlib.sha256(batch.key.encode()).hexdigest()[:24]
