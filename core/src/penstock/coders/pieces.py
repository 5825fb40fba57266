"""Writing many records at once: each field as a binary array, joined row by row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.coders.parts import binary, bytes_of
from penstock.contracts.compute import pc


def joined(*pieces: pa.Array | bytes) -> pa.Array:
    """The pieces of each row, one after another; a constant is the same in every row."""
    arrays = [pa.scalar(p, pa.binary()) if isinstance(p, bytes) else p for p in pieces]
    if len(arrays) == 1:
        return arrays[0]
    # Not a constant of the module: the first scalar a process makes imports pandas.
    return pc.binary_join_element_wise(*arrays, pa.scalar(b"", pa.binary()))


def slices(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> pa.Array:
    """The bytes between each start and end, which must rise and not overlap, as an array.

    An array over the slices *and* the gaps between them costs no copy; taking every second
    element of it is one pass in C++.
    """
    edges = np.empty(2 * len(starts), np.int32)
    edges[0::2] = starts
    edges[1::2] = ends
    if len(starts) < 2:
        return binary(data, edges if len(starts) else np.zeros(1, np.int32))
    return binary(data, edges).take(pa.array(np.arange(0, len(edges) - 1, 2, dtype=np.int32)))


def per_list(items: pa.Array, offsets: np.ndarray, trim: int = 0) -> pa.Array:
    """The items of each list, one after another, less `trim` bytes at the end of each list.

    Args:
        items: One encoded item after another, over all lists.
        offsets: Where each list begins among the items, and the last ends.
        trim: The length of the separator after each item.
    """
    data, edges = bytes_of(items)
    if not trim:
        return binary(data, edges[offsets])
    starts = edges[offsets[:-1]]
    ends = edges[offsets[1:]]
    return slices(data, starts, np.where(ends > starts, ends - trim, ends))


def list_parts(array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """A list or map array as (offsets from zero, its items and no others); null lists are empty."""
    if array.null_count:
        array = pa.concat_arrays([array.filter(pc.is_valid(array)), array.slice(0, 0)])
    offsets = np.asarray(array.offsets)
    values = array.values if not pa.types.is_map(array.type) else _entries(array)
    items = values.slice(offsets[0], offsets[-1] - offsets[0])
    return offsets - offsets[0], items


def _entries(array: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])


def scattered(array: pa.Array, valid: pa.Array, filler: bytes) -> pa.Array:
    """Pieces of the valid rows put back among all rows; the others get the filler."""
    holes = pc.if_else(valid, pa.scalar(None, pa.binary()), pa.scalar(filler, pa.binary()))
    return pc.replace_with_mask(holes, valid, array)
