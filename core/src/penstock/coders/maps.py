"""Maps in which a key comes twice: the last value stays, at the first one's place."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def map_of(offsets: pa.Array, keys: pa.Array, values: pa.Array, kind: pa.DataType) -> pa.MapArray:
    """A map array whose maps hold each key once."""
    if len(keys):
        codes = keys.dictionary_encode()
        edges = np.asarray(offsets)
        owners = np.repeat(np.arange(len(offsets) - 1), np.diff(edges))
        both = owners * len(codes.dictionary) + np.asarray(codes.indices)
        # Sorting is several times as fast as counting by hash: the maps stand in order already.
        ranked = np.sort(both)
        if (ranked[1:] == ranked[:-1]).any():
            _, first = np.unique(both, return_index=True)
            _, back = np.unique(both[::-1], return_index=True)
            order = np.argsort(first)
            chosen = pa.array((len(both) - 1 - back)[order])
            counts = np.bincount(owners[first[order]], minlength=len(offsets) - 1)
            offsets = pa.array(np.append(0, np.cumsum(counts)), pa.int32())
            keys, values = keys.take(chosen), values.take(chosen)
    return pa.MapArray.from_arrays(offsets, keys, values, type=kind)
