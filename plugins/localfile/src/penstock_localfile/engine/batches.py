"""Small batches joined: thousands of little files must not become thousands of little batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

_BYTES = 1 << 20
_ROWS = 10_000


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order; neighbours are joined until they are worth sending."""
    held: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        weight = batch.nbytes
        if held and (size + weight > _BYTES or rows + batch.num_rows > _ROWS):
            yield _one(held)
            held, size, rows = [], 0, 0
        held.append(batch)
        size, rows = size + weight, rows + batch.num_rows
    if held:
        yield _one(held)


def _one(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(held) == 1:
        return held[0]
    table = pa.Table.from_batches(held).combine_chunks()
    return table.to_batches()[0] if table.num_rows else held[0]
