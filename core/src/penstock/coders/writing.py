"""Numbers as the bytes of binary formats, many at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.coders.cursors import Ints, Words
from penstock.coders.parts import binary

_ONE = np.uint64(1)
_SEVEN = np.uint64(0x7F)


def signed_varints(numbers: Ints) -> pa.Array:
    """Zigzag varints."""
    return varints(((numbers << 1) ^ (numbers >> 63)).view(np.uint64))


def varints(x: Words, empty_zero: bool = False) -> pa.Array:
    """Unsigned varints; with `empty_zero` a zero takes no bytes at all."""
    offsets = np.zeros(len(x) + 1, np.int32)
    if not len(x) or int(x.max()) < 0x80:
        small = x.astype(np.uint8)
        if empty_zero:
            np.cumsum(x != 0, out=offsets[1:])
            return binary(small[small != 0], offsets)
        return binary(small, np.arange(len(x) + 1, dtype=np.int32))
    size = np.ones(len(x), np.int64)
    most = 1
    while most < 10 and int(x.max()) >> (7 * most):
        size += x >= (_ONE << np.uint64(7 * most))
        most += 1
    matrix = np.empty((len(x), most), np.uint8)
    for place in range(most):
        matrix[:, place] = (x >> np.uint64(7 * place)) & _SEVEN
        matrix[:, place] |= (size > place + 1).astype(np.uint8) << 7
    if empty_zero:
        size[x == 0] = 0
    np.cumsum(size, out=offsets[1:])
    return binary(matrix[np.arange(most) < size[:, None]], offsets)


def fixed_width(numbers: np.ndarray) -> pa.Array:
    """Numbers as little-endian bytes of their own width."""
    width = numbers.dtype.itemsize
    plain = np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("<")))
    return binary(plain.view(np.uint8), np.arange(len(numbers) + 1, dtype=np.int32) * width)


def big_endian(low: Ints, high: Ints, size: int | None = None) -> pa.Array:
    """128-bit numbers as two's complement: as short as can be, or all of one size.

    One that does not fit the size gets the shortest form instead.
    """
    matrix = np.empty((len(low), 16), np.uint8)
    matrix[:, :8] = high.astype(">i8").view(np.uint8).reshape(-1, 8)
    matrix[:, 8:] = low.astype(">i8").view(np.uint8).reshape(-1, 8)
    sign = np.where(high < 0, 0xFF, 0).astype(np.uint8)
    need = 16 - (np.logical_and.accumulate(matrix[:, :15] == sign[:, None], axis=1)).sum(1)
    # The first byte that is kept must show the sign.
    top = matrix[np.arange(len(low)), 16 - need]
    need = np.where((need < 16) & ((top ^ sign) & 0x80 != 0), need + 1, need)
    if size is not None:
        if size > 16:
            matrix = np.concatenate([np.repeat(sign[:, None], size - 16, 1), matrix], axis=1)
        need = np.where(need <= size, size, need)
    width = matrix.shape[1]
    offsets = np.zeros(len(low) + 1, np.int32)
    np.cumsum(need, out=offsets[1:])
    return binary(matrix[np.arange(width) >= width - need[:, None]], offsets)
