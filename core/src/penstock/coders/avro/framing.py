"""What stands before an Avro record: nothing, a fingerprint, or a registry's id."""

from __future__ import annotations

from typing import Any

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.coders.groups import Rows, by_key
from penstock.coders.parts import bytes_of
from penstock.contracts.coder import RowError

SINGLE = b"\xc3\x01"
HEADER = 5
SINGLE_HEADER = 10


def fingerprint(schema: Any) -> bytes:
    """The eight bytes that name a schema in a single object (CRC-64-AVRO, little endian)."""
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    return bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))


def _headers(values: pa.Array, size: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """The first bytes of each value as a matrix, and which values have that many."""
    data, offsets = bytes_of(values)
    starts = offsets[:-1].astype(np.int64)
    whole = np.diff(offsets) >= size
    if not whole.any():
        return np.zeros((len(values), size), np.uint8), whole
    at = np.where(whole, starts, starts[np.argmax(whole)])
    return data[at[:, None] + np.arange(size)], whole


def registry_ids(values: pa.Array) -> tuple[list[tuple[int, Rows]], list[RowError]]:
    """The rows of each schema id, and the rows that have no such header."""
    head, whole = _headers(values, HEADER)
    good = whole & (head[:, 0] == 0)
    ids = head[:, 1:].astype(np.int64) @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
    said = "it does not begin with a registry's header (a zero byte and a schema id)"
    return _grouped(ids, good, said)


def fingerprints(
    values: pa.Array, known: list[bytes]
) -> tuple[list[tuple[int, Rows]], list[RowError]]:
    """The rows written with each known schema (by its place), and the others as errors."""
    head, whole = _headers(values, SINGLE_HEADER)
    marked = whole & (head[:, :2] == np.frombuffer(SINGLE, np.uint8)).all(1)
    which = np.full(len(values), -1, np.int64)
    for place, each in enumerate(known):
        which[marked & (head[:, 2:] == np.frombuffer(each, np.uint8)).all(1)] = place
    groups, errors = _grouped(which, which >= 0, "")
    for index, error in enumerate(errors):
        said = "it is no Avro single object"
        if marked[error.row]:
            said = "it was written with a schema whose fingerprint is not among those given"
        errors[index] = RowError(error.row, said)
    return groups, errors


def _grouped(
    keys: npt.NDArray[np.int64], good: npt.NDArray[np.bool_], said: str
) -> tuple[list[tuple[int, Rows]], list[RowError]]:
    if good.all():
        return by_key(keys), []
    kept = np.flatnonzero(good)
    groups = [(key, kept[rows]) for key, rows in by_key(keys[kept])]
    return groups, [RowError(int(row), said) for row in np.flatnonzero(~good)]
