"""Working on a batch in groups of rows, and putting what became of them back in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import evolve

from penstock.coders.isolate import isolate
from penstock.coders.parts import empty
from penstock.contracts.coder import Decoded, Encoded, RowError
from penstock.contracts.envelope import conform
from penstock.contracts.errors import CodecError, PenstockError, SchemaError

Rows = npt.NDArray[np.intp]


def by_key(keys: npt.NDArray[np.generic]) -> list[tuple[int, Rows]]:
    """Which rows hold each key, keys in their order."""
    if len(keys) and (keys == keys[0]).all():
        return [(int(keys[0]), np.arange(len(keys)))]
    found, inverse = np.unique(keys, return_inverse=True)
    return [(int(key), np.flatnonzero(inverse == i)) for i, key in enumerate(found)]


def merged(
    parts: Sequence[tuple[Rows, Decoded]], schema: pa.Schema, count: int, errors: Sequence[RowError]
) -> Decoded:
    """What became of groups of rows, as if they had been decoded together.

    Args:
        parts: For each group its input rows and their outcome.
        schema: The columns of every part.
        count: How many input rows there were.
        errors: Input rows that are in no group, because they are bad.
    """
    if len(parts) == 1 and len(parts[0][0]) == count:
        return parts[0][1]
    batches, origins = [], []
    bad = list(errors)
    for rows, done in parts:
        batches.append(done.rows)
        kept = rows if done.origin is None else rows[done.origin.to_numpy()]
        origins.append(kept)
        bad += [evolve(error, row=int(rows[error.row])) for error in done.errors]
    bad.sort(key=lambda error: error.row)
    if not batches:
        return Decoded(empty(schema), pa.array([], pa.int32()), tuple(bad))
    origin = np.concatenate(origins)
    whole = pa.Table.from_batches(batches, schema=schema).combine_chunks()
    if (origin[1:] < origin[:-1]).any():
        order = np.argsort(origin, kind="stable")
        origin = origin[order]
        whole = whole.take(pa.array(order)).combine_chunks()
    made = whole.to_batches()
    rows_out = made[0] if made else empty(schema)
    if len(origin) == count and not bad and (origin == np.arange(count)).all():
        return Decoded(rows_out)
    return Decoded(rows_out, pa.array(origin, pa.int32()), tuple(bad))


def grouped(
    values: pa.Array,
    groups: Sequence[tuple[int, Rows]],
    schema: pa.Schema,
    decode: Callable[[int, pa.Array], Decoded],
    errors: Sequence[RowError] = (),
) -> Decoded:
    """Decode each group of the values (no nulls) on its own and merge the outcomes."""
    parts = []
    for key, rows in groups:
        part = values if len(rows) == len(values) else values.take(pa.array(rows))
        parts.append((rows, decode(key, part)))
    return merged(parts, schema, len(values), errors)


def encoded(
    rows: pa.RecordBatch, schema: pa.Schema, encode: Callable[[pa.RecordBatch], Encoded]
) -> Encoded:
    """Encode rows in a schema; a row with a value that cannot be cast to it is an error.

    Raises:
        SchemaError: a column is missing, or of a type that never can be cast.
    """
    try:
        whole = conform(rows, schema)
    except SchemaError:
        conform(rows.slice(0, 0), schema)
    else:
        return encode(whole)

    def attempt(start: int, stop: int) -> pa.RecordBatch:
        try:
            return conform(rows.slice(start, stop - start), schema)
        except SchemaError as error:
            raise CodecError(f"{error.message} to {error.expected}") from None

    runs, errors = isolate(rows.num_rows, attempt)
    bad = np.zeros(rows.num_rows, bool)
    bad[[error.row for error in errors]] = True
    kept = np.flatnonzero(~bad)
    found = pa.Table.from_batches(runs, schema=schema).combine_chunks().to_batches()
    done = encode(found[0] if found else empty(schema))
    places = pa.array(np.maximum(np.cumsum(~bad) - 1, 0), mask=bad)
    errors += [evolve(error, row=int(kept[error.row])) for error in done.errors]
    errors.sort(key=lambda error: error.row)
    return Encoded(done.values.take(places), tuple(errors))


def refused(schema: pa.Schema, count: int, error: PenstockError) -> Decoded:
    """The same error for every row of a group."""
    kind = type(error).__name__
    errors = [RowError(row, error.message, kind, error.ephemeral) for row in range(count)]
    return Decoded(empty(schema), pa.array([], pa.int32()), tuple(errors))
