"""Putting a decoded batch together: tombstones left out, origins kept, errors numbered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from attrs import evolve

from penstock.contracts.coder import Decoded, RowError
from penstock.contracts.compute import pc


def present(values: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """The values that are not null, as plain binary, and their rows; None if all are there."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not pa.types.is_binary(values.type):
        values = values.cast(pa.binary())
    if values.null_count == 0:
        return values, None
    kept = pc.is_valid(values)
    return values.filter(kept), pc.indices_nonzero(kept).cast(pa.int32())


def spans(values: pa.Array, rows: int, size: int = 2**28) -> Iterator[tuple[int, int]]:
    """Runs of at most so many rows and, where a row allows it, so many bytes."""
    _, offsets = bytes_of(values)
    start = 0
    while start < len(values):
        fits = int(np.searchsorted(offsets, int(offsets[start]) + size, "right")) - 1
        stop = min(start + rows, max(fits, start + 1), len(values))
        yield start, stop
        start = stop


def bytes_of(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """A binary array without nulls as (all bytes, offsets): views, never copies."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[
        values.offset : values.offset + len(values) + 1
    ]
    data = values.buffers()[2]
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), offsets


def binary(data: object, offsets: np.ndarray) -> pa.Array:
    """A binary array over these bytes, sliced at these offsets."""
    edges = pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, edges, pa.py_buffer(data)])


def assemble(
    runs: Sequence[pa.RecordBatch],
    errors: Sequence[RowError],
    rows: pa.Array | None,
    schema: pa.Schema,
    count: int,
) -> Decoded:
    """One result from runs of good rows (in order) and the errors between them.

    Args:
        runs: One output row for each present value that is not bad.
        errors: By index among the present values.
        rows: Which input row each present value is; None: the same.
        schema: The columns of the result; the runs' are renamed, not cast.
        count: How many input rows there were.
    """
    if len(runs) == 1:
        whole = runs[0].rename_columns(schema.names)
    else:
        table = pa.Table.from_batches(
            [run.rename_columns(schema.names) for run in runs], schema=schema
        )
        batches = table.combine_chunks().to_batches()
        whole = batches[0] if batches else empty(schema)
    if whole.num_rows == count:
        return Decoded(whole)
    origin = np.arange(count, dtype=np.int32) if rows is None else rows.to_numpy()
    if errors:
        bad = np.array([error.row for error in errors])
        errors = [evolve(error, row=int(origin[error.row])) for error in errors]
        origin = np.delete(origin, bad)
    return Decoded(whole, pa.array(origin, pa.int32()), tuple(errors))


def empty(schema: pa.Schema) -> pa.RecordBatch:
    """No rows of this schema."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def under(
    outer: Decoded,
    inner: Decoded,
    parents: pa.Array | None = None,
    errors: Sequence[RowError] = (),
) -> Decoded:
    """What `inner` made of the rows of `outer`, told in terms of the first input.

    Args:
        outer: The first step.
        inner: The second step, whose input rows are `outer`'s rows or pieces of them.
        parents: For each input row of `inner` its row in `outer`; None: the same.
        errors: Rows of `outer` that gave the second step nothing, because they are bad.

    One bad piece makes its whole message an error.
    """
    if parents is None and outer.origin is None and not errors:
        return inner
    ranks = np.arange(outer.rows.num_rows) if parents is None else np.asarray(parents)
    names = ranks if outer.origin is None else outer.origin.to_numpy()[ranks]
    origin = names if inner.origin is None else names[inner.origin.to_numpy()]
    rows = np.arange(outer.rows.num_rows) if outer.origin is None else outer.origin.to_numpy()
    bad = [evolve(error, row=int(names[error.row])) for error in inner.errors]
    bad += [evolve(error, row=int(rows[error.row])) for error in errors]
    done = Decoded(inner.rows, pa.array(origin, pa.int32()), outer.errors)
    return without(done, bad)


def lines_of(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Each line of each value (no nulls; a last empty line is none), and its parent's index."""
    split = pc.split_pattern_regex(values, r"\r?\n")
    flat = split.flatten()
    parents = pc.list_parent_indices(split).cast(pa.int32())
    if not len(flat):
        return flat, parents
    ends = np.asarray(parents)
    last = np.append(ends[1:] != ends[:-1], True)
    keep = ~(last & np.asarray(pc.equal(pc.binary_length(flat), 0)))
    return flat.filter(pa.array(keep)), parents.filter(pa.array(keep))


def without(done: Decoded, rows: Sequence[RowError]) -> Decoded:
    """The result without the output of these input rows, which become errors."""
    if not rows:
        return done
    first: dict[int, RowError] = {}
    for error in rows:
        first.setdefault(error.row, error)
    count = done.rows.num_rows
    origin = np.arange(count, dtype=np.int32) if done.origin is None else done.origin.to_numpy()
    keep = pa.array(~np.isin(origin, list(first)))
    known = {error.row for error in done.errors}
    added = [error for row, error in first.items() if row not in known]
    errors = sorted([*done.errors, *added], key=lambda error: error.row)
    return Decoded(done.rows.filter(keep), pa.array(origin, pa.int32()).filter(keep), tuple(errors))
