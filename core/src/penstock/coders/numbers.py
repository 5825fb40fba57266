"""Decimals and UUIDs between bytes and Arrow, many at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.coders.cursors import Buffer, Bytes, Ints, Words

_HEX = np.frombuffer("".join(f"{n:02x}" for n in range(256)).encode(), np.uint8).reshape(256, 2)
_DIGITS = np.array([i for i in range(36) if i not in (8, 13, 18, 23)])
_ALL = np.uint64(2**64 - 1)


def decimals(
    buffer: Buffer, starts: Ints, ends: Ints, kind: pa.DataType
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Big-endian two's complement numbers as decimals, and which have too many digits."""
    size = ends - starts
    low = _part(buffer, ends - 8, np.minimum(size, 8))
    high = np.where(size > 8, _part(buffer, ends - 16, np.minimum(size - 8, 8)), low >> 63)
    wide = np.zeros(len(starts), bool)
    for index in np.flatnonzero(size > 16):
        raw = buffer.data[starts[index] : ends[index]].tobytes()
        number = int.from_bytes(raw, "big", signed=True)
        wide[index] = abs(number) >= 10**kind.precision
    wide |= _above(high, low, 10**kind.precision)
    return from_words(np.where(wide, 0, low), np.where(wide, 0, high), kind), wide


def _part(buffer: Buffer, at: Ints, size: Ints) -> Ints:
    """Up to eight bytes that end eight after `at`, sign-extended."""
    words = buffer.words[np.maximum(at, 0)].byteswap().view(np.int64)
    shift = (8 - np.clip(size, 0, 8)) * 8
    # A shift by 64 is undefined: an empty number is zero.
    moved = (words << np.minimum(shift, 63)) >> np.minimum(shift, 63)
    return np.where(size <= 0, 0, moved)


def _above(high: Ints, low: Ints, bound: int) -> npt.NDArray[np.bool_]:
    negative = high < 0
    lo: Words = low.view(np.uint64)
    hi: Words = high.view(np.uint64)
    lo = np.where(negative, ~lo + np.uint64(1), lo)
    carry = negative & (lo == 0)
    hi = np.where(negative, ~hi + carry.astype(np.uint64), hi)
    top, rest = np.uint64(bound >> 64), np.uint64(bound & (2**64 - 1))
    found: npt.NDArray[np.bool_] = (hi > top) | ((hi == top) & (lo >= rest))
    return found


def from_words(low: Ints, high: Ints, kind: pa.DataType) -> pa.Array:
    """Decimals of their low and high 64 bits."""
    both = np.empty((len(low), 2), np.int64)
    both[:, 0] = low
    both[:, 1] = high
    return pa.Array.from_buffers(kind, len(low), [None, pa.py_buffer(both)])


def to_words(array: pa.Array) -> tuple[Ints, Ints]:
    """The low and high 64 bits of decimals; nulls mean nothing."""
    if not len(array):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    both = np.frombuffer(array.buffers()[1], np.int64)
    both = both[array.offset * 2 : (array.offset + len(array)) * 2].reshape(-1, 2)
    return both[:, 0].copy(), both[:, 1].copy()


def uuids(data: Bytes, starts: Ints) -> pa.Array:
    """Sixteen bytes from each start as the text of a UUID."""
    raw = data[starts[:, None] + np.arange(16)] if len(starts) else np.empty((0, 16), np.uint8)
    text = np.full((len(starts), 36), ord("-"), np.uint8)
    text[:, _DIGITS] = _HEX[raw].reshape(-1, 32)
    offsets = np.arange(len(starts) + 1, dtype=np.int32) * 36
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text))]
    return pa.Array.from_buffers(pa.string(), len(starts), buffers)
