"""The header that a registry's serializers put before a value: a zero byte and a schema id."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.coders.groups import Rows, by_key
from penstock.coders.parts import bytes_of
from penstock.contracts.coder import RowError

HEADER = 5


def headers(values: pa.Array, size: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
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
    head, whole = headers(values, HEADER)
    good = whole & (head[:, 0] == 0)
    ids = head[:, 1:].astype(np.int64) @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
    said = "it does not begin with a registry's header (a zero byte and a schema id)"
    return grouped_rows(ids, good, said)


def grouped_rows(
    keys: npt.NDArray[np.int64], good: npt.NDArray[np.bool_], said: str
) -> tuple[list[tuple[int, Rows]], list[RowError]]:
    """The good rows by key, and an error for each other."""
    if good.all():
        return by_key(keys), []
    kept = np.flatnonzero(good)
    groups = [(key, kept[rows]) for key, rows in by_key(keys[kept])]
    return groups, [RowError(int(row), said) for row in np.flatnonzero(~good)]
