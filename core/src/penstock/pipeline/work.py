"""The rows at hand inside a chain: their own columns, and where each came from.

`_pen` is big and nested, so a chain does not drag it through every stage: it keeps row numbers
into the batch that came in, and gathers `_pen` once, at the end or when a stage asks for it. The
source's bytes lie beside it, with row numbers of their own: of one record many may have been made.
"""

from __future__ import annotations

import datetime
import traceback
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.contracts.compute import pc
from penstock.contracts.envelope import ERROR, PEN, PEN_FIELD, payload_schema, pen

_MOST_TEXT = 16_000
_MOST_COPIED = 64 * 2**10
"""Bytes that the copies of one record's original may take together, where it became several."""


class Work:
    """The healthy rows of one batch on their way through a chain, and the failed ones beside."""

    def __init__(self, rows: pa.RecordBatch, *, original: bool) -> None:
        meta = rows.column("_pen")
        self.payload = rows.select(payload_schema(rows.schema).names)
        self.objects: list[Any] | None = None
        self._original = originals(meta, rows.column("value") if original else None)
        self._original_at: pa.Array | None = None
        meta = without_original(meta)
        self._pen = meta
        self._at: pa.Array | None = None
        self.failed: list[pa.Array] = []
        errors = meta.field("error")
        if errors.null_count < len(errors):
            healthy = pc.indices_nonzero(pc.is_null(errors))
            self.failed.append(meta.filter(pc.is_valid(errors)))
            self.advance(self.payload.take(healthy), healthy)

    @property
    def count(self) -> int:
        """How many healthy rows there are."""
        return int(self.payload.num_rows)

    def pen(self) -> pa.StructArray:
        """The `_pen` column of the rows at hand."""
        if self._at is not None:
            self._pen = self._pen.take(self._at)
            self._at = None
        return self._pen

    def with_pen(self) -> pa.RecordBatch:
        """The rows at hand with their `_pen` column, as plugin steps get them."""
        return self.payload.append_column(PEN_FIELD, self._whole_pen())

    def advance(
        self,
        rows: pa.RecordBatch,
        origin: pa.Array | None,
        *,
        key: pa.Array | None = None,
        meta: pa.Array | None = None,
        objects: list[Any] | None = None,
    ) -> None:
        """Replace the rows at hand by what a stage made of them."""
        self.payload = rows
        self.objects = objects
        if origin is not None:
            self._original_at = (
                origin if self._original_at is None else self._original_at.take(origin)
            )
            if meta is None:
                self._at = origin if self._at is None else self._at.take(origin)
        if meta is not None:
            self._pen, self._at = without_original(meta), None
            self._original, self._original_at = originals(meta), None
        if key is not None:
            self._pen = replaced(self.pen(), "key", key)

    def empty(self, schema: pa.Schema) -> None:
        """No healthy row is left; they would have had this schema."""
        self.payload = pa.RecordBatch.from_arrays(
            [pa.nulls(0, f.type) for f in schema], schema=schema
        )
        self.objects = []
        self._pen, self._at = pen(0), None
        self._original = self._original_at = None

    def number_siblings(self, origin: pa.Array) -> None:
        """Tell the rows that one record became apart: `/0`, `/1`, ... after its id."""
        found = np.asarray(origin)
        if len(found) < 2 or not (np.diff(np.sort(found)) == 0).any():
            return
        meta = self.pen()
        ids = meta.field("id")
        parents = found.tolist()
        times = Counter(parents)
        seen: dict[int, int] = {}
        suffixes: list[str] = []
        for parent in parents:
            number = seen.get(parent, 0)
            seen[parent] = number + 1
            suffixes.append(f"/{number}" if times[parent] > 1 else "")
        named = pc.binary_join_element_wise(ids, pa.array(suffixes, pa.string()), "")
        self._pen = replaced(meta, "id", named)

    def fail(self, node: str, failures: dict[int, tuple[BaseException, int]]) -> None:
        """Turn rows at hand into error rows, before the stage's outcome replaces them."""
        wanted = pa.array(list(failures), pa.int64())
        meta = self.pen().take(wanted)
        got = self.payload.take(wanted)
        whole = got.append_column(PEN_FIELD, meta)
        bytes_ = self._originals(wanted)
        now = datetime.datetime.now(datetime.UTC)
        errors = [
            {
                "node": node,
                "kind": _kind(error),
                "message": _message(error),
                "traceback": _trace(error),
                "original": bytes_[n],
                "input": one_row(whole.slice(n, 1)),
                "attempt": attempts,
                "at": now,
            }
            for n, (error, attempts) in enumerate(failures.values())
        ]
        self.failed.append(replaced(meta, "error", pa.array(errors, ERROR)))

    def _originals(self, wanted: pa.Array) -> list[bytes | None]:
        if self._original is None:
            return [None] * len(wanted)
        at = wanted if self._original_at is None else self._original_at.take(wanted)
        return self._original.take(at).to_pylist()  # type: ignore[no-any-return]

    def _whole_pen(self) -> pa.StructArray:
        """`_pen` with the source's bytes in it."""
        if self._original is None:
            return self.pen()
        found, at = self._original, self._original_at
        if at is not None:
            found = _spared(found, at).take(at)
        return replaced(self.pen(), "original", found)

    def finished(self, schema: pa.Schema, *, original: bool = False) -> pa.RecordBatch:
        """All rows in the chain's output schema: the healthy, then the failed.

        With `original` the healthy ones carry the source's bytes on.
        """
        columns = [self.payload.column(f.name) for f in schema if f.name != "_pen"]
        meta = self._whole_pen() if original else self.pen()
        if self.failed:
            count = sum(len(each) for each in self.failed)
            columns = [pa.concat_arrays([c, pa.nulls(count, c.type)]) for c in columns]
            meta = pa.concat_arrays([meta, *self.failed])
        return pa.RecordBatch.from_arrays([*columns, meta], schema=schema)


def replaced(meta: pa.StructArray, name: str, array: pa.Array) -> pa.StructArray:
    """`_pen` with another array in the place of one of its fields."""
    given = {f.name: meta.field(f.name) for f in PEN}
    given[name] = array.cast(PEN.field(name).type) if name != "error" else array
    return pen(len(meta), **given)


def originals(meta: pa.StructArray, value: pa.Array | None = None) -> pa.Array | None:
    """The source's bytes: those that rows carry, else their undecoded `value`, else none."""
    carried = meta.field("original")
    if carried.null_count == len(carried):
        return value
    return carried if value is None else pc.coalesce(carried, value)


def without_original(meta: pa.StructArray) -> pa.StructArray:
    """`_pen` without the source's bytes."""
    carried = meta.field("original")
    if carried.null_count == len(carried):
        return meta
    return replaced(meta, "original", pa.nulls(len(meta), carried.type))


def _spared(found: pa.Array, at: pa.Array) -> pa.Array:
    """The bytes, without those that would grow too large: a large record became many rows."""
    if len(at) < 2:
        return found
    times = np.bincount(np.asarray(at), minlength=len(found))
    if times.max() < 2:
        return found
    sizes = np.asarray(pc.fill_null(pc.binary_length(found), 0))
    large = (times > 1) & (times * sizes > _MOST_COPIED)
    if not large.any():
        return found
    return pc.if_else(pa.array(large), pa.scalar(None, found.type), found)


def one_row(row: pa.RecordBatch) -> bytes:
    """A record as a one-row Arrow IPC stream: the `input` of a dead letter."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as stream:
        stream.write_batch(row)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def read_row(data: bytes) -> pa.RecordBatch:
    """The record that `one_row` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
        return stream.read_next_batch()


def _kind(error: BaseException) -> str:
    return str(getattr(error, "penstock_kind", type(error).__name__))


def _message(error: BaseException) -> str:
    return str(error)[:_MOST_TEXT]


def _trace(error: BaseException) -> str | None:
    if error.__traceback__ is None:
        return None
    return "".join(traceback.format_exception(error))[-_MOST_TEXT:]
