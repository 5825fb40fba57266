"""Dead letters on the worker: what failed, written to files that the driver publishes."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.contracts.envelope import ERROR, PEN, PEN_FIELD, TIMESTAMP, column, pen
from penstock.contracts.sink import Rejected
from penstock.pipeline.letter import LETTER
from penstock.pipeline.work import one_row, originals, read_row, replaced, without_original


class Letters:
    """The dead letters of one task; a file is made with the first of them."""

    def __init__(self, folder: str, batch: int, series: str = "") -> None:
        self._name = uuid.uuid4().hex
        self._path = Path(folder) / "files" / f"{series}{batch}-{self._name}.parquet"
        self._batch = batch
        self._writer: pq.ParquetWriter | None = None
        self._count = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Keep rows whose `_pen.error` is set."""
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, LETTER, compression="zstd")
        self._writer.write_batch(self._letters(rows))

    def _letters(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        count = rows.num_rows
        meta = rows.column("_pen")
        error = meta.field("error")
        stem = f"{self._batch}.{self._name[:8]}"
        names = [f"{stem}.{self._count + i}" for i in range(count)]
        self._count += count
        given = {
            "letter": pa.array(names, pa.string()),
            "batch": pa.repeat(self._batch, count).cast(pa.int64()),
            "event_time": _times(rows, error),
        }
        arrays = []
        for f in LETTER:
            array = given.get(f.name)
            if array is None:
                holder = error if ERROR.get_field_index(f.name) >= 0 else meta
                array = holder.field(f.name)
            arrays.append(array.cast(f.type))
        return pa.RecordBatch.from_arrays(arrays, schema=LETTER)

    def close(self) -> tuple[str, ...]:
        """Make the file durable; its name, or nothing if nothing failed."""
        if self._writer is None:
            return ()
        self._writer.close()
        with open(self._path, "rb") as file:
            os.fsync(file.fileno())
        return (self._path.name,)

    def abort(self) -> None:
        """This attempt failed: its letters with it."""
        if self._writer is not None:
            self._writer.close()
            self._path.unlink(missing_ok=True)


def _times(rows: pa.RecordBatch, error: pa.StructArray) -> pa.Array:
    """Event times; a row that failed keeps its own only in what the failing node got.

    In its column it is null, so that no watermark finds it late and drops it.
    """
    found = column(rows, "event_time")
    times = [None] * rows.num_rows if found is None else found.to_pylist()
    for at, data in enumerate(error.field("input").to_pylist()):
        if times[at] is None and data is not None:
            given = column(read_row(data), "event_time")
            times[at] = None if given is None else given[0].as_py()
    return pa.array(times, TIMESTAMP)


def refused(rejected: Rejected, node: str) -> pa.RecordBatch:
    """Rows that a sink refused, in the form of rows that failed at its node."""
    rows = rejected.rows
    count, now = rows.num_rows, datetime.now(UTC)
    meta = _meta(rows)
    known = originals(meta, _value(rows))
    meta = without_original(meta)
    at = rows.schema.get_field_index("_pen")
    given = rows if at < 0 else rows.set_column(at, PEN_FIELD, meta)
    errors = [
        {
            "node": node,
            "kind": "Rejected",
            "message": message,
            "traceback": None,
            "original": None if known is None else known[i].as_py(),
            "input": one_row(given.slice(i, 1)),
            "attempt": 1,
            "at": now,
        }
        for i, message in enumerate(rejected.errors)
    ]
    time = _column(rows, "event_time", TIMESTAMP)
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(count, TIMESTAMP) if time is None else time,
            replaced(meta, "error", pa.array(errors, ERROR)),
        ],
        names=["event_time", "_pen"],
    )


def _meta(rows: pa.RecordBatch) -> pa.StructArray:
    """The `_pen` of rows; of those that have none, made of columns that are the envelope's own."""
    if "_pen" in rows.schema.names:
        return rows.column("_pen")
    names = ("key", "headers", "id", "stamp")
    return pen(rows.num_rows, **{name: _column(rows, name, PEN.field(name).type) for name in names})


def _column(rows: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array | None:
    """A column of this type; a user's own of the same name has another."""
    index = rows.schema.get_field_index(name)
    found = None if index < 0 else rows.column(index)
    return found if found is not None and found.type.equals(kind) else None


def _value(rows: pa.RecordBatch) -> pa.Array | None:
    text = _column(rows, "value", pa.string())
    return _column(rows, "value", pa.binary()) if text is None else text.cast(pa.binary())
