"""Reading one field of many records at once.

Each record has a cursor into one buffer. A step reads the same kind of thing under every cursor
and moves them all: the cost of Python is paid once per field, not once per record and field. A
record that runs past its end, or says something impossible, is marked and its cursor parked at
the end, so that its neighbours never notice.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import frozen

from penstock.coders.parts import bytes_of

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.intp]

PAD = 16
_HIGH = np.uint64(0x8080808080808080)
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_PAIRS = np.uint64(0x007F007F007F007F)
_QUADS = np.uint64(0x00003FFF00003FFF)
_HALF = np.uint64(0x000000000FFFFFFF)
_ONE, _TWO, _THREE, _FOUR = (np.uint64(n) for n in (1, 2, 3, 4))


class Buffer:
    """The bytes of all records of a batch, and what is wrong with some of them."""

    def __init__(self, values: pa.Array, skip: int = 0) -> None:
        data, offsets = bytes_of(values)
        first, last = int(offsets[0]), int(offsets[-1])
        self.data: Bytes = np.zeros(last - first + 2 * PAD, np.uint8)
        self.data[PAD:-PAD] = data[first:last]
        self.words = np.ndarray((len(self.data) - 7,), "<u8", self.data, strides=(1,))
        edges = offsets.astype(np.int64) + (PAD - first)
        self.starts: Ints = np.minimum(edges[:-1] + skip, edges[1:])
        self.ends: Ints = edges[1:]
        self.bad = np.zeros(len(values), bool)
        self.left = np.zeros(len(values), bool)
        self.faults: dict[int, str] = {}

    def part(self, start: int, stop: int) -> Buffer:
        """Some of the records, over the same bytes."""
        made: Buffer = Buffer.__new__(Buffer)
        made.data, made.words = self.data, self.words
        made.starts, made.ends = self.starts[start:stop], self.ends[start:stop]
        made.bad, made.left = self.bad[start:stop], self.left[start:stop]
        faults = self.faults.items()
        made.faults = {row - start: said for row, said in faults if start <= row < stop}
        return made

    def blame(self, rows: Rows, fault: str) -> None:
        """Mark rows as bad for a reason; the first reason stays.

        A row that is `left` to another way of reading is parked like a bad one, and blameless.
        """
        rows = rows[~self.left[rows]]
        for row in rows[~self.bad[rows]].tolist():
            self.faults.setdefault(row, fault)
        self.bad[rows] = True


def varints(buffer: Buffer, pos: Ints) -> tuple[Words, Ints]:
    """The unsigned varint under each cursor, and the cursors after it.

    A varint of more than ten bytes, or above 64 bits, moves its cursor far past any end.
    """
    first = buffer.data[pos]
    if not (first & 0x80).any():
        return first.astype(np.uint64), pos + 1
    words = buffer.words[pos]
    stop = ~words & _HIGH
    low = stop & (~stop + _ONE)
    mask = low | (low - _ONE)
    size = (np.bitwise_count(mask) >> 3).astype(np.int64)
    x = words & mask & _LOW
    x = (x & _PAIRS) | ((x >> _ONE) & (_PAIRS << np.uint64(7)))
    x = (x & _QUADS) | ((x >> _TWO) & (_QUADS << np.uint64(14)))
    x = (x & _HALF) | ((x >> _FOUR) & (_HALF << np.uint64(28)))
    if not low.all():
        _long(buffer, pos, np.flatnonzero(low == 0), x, size)
    return x, pos + size


def _long(
    buffer: Buffer,
    pos: Ints,
    which: Rows,
    x: Words,
    size: Ints,
) -> None:
    ninth = buffer.data[pos[which] + 8].astype(np.uint64)
    tenth = buffer.data[pos[which] + 9].astype(np.uint64)
    more = ninth >= 0x80
    high = (ninth & np.uint64(0x7F)) << np.uint64(56)
    top = np.where(more, (tenth & _ONE) << np.uint64(63), np.uint64(0))
    x[which] |= high | top
    size[which] = np.where(more, np.where(tenth > 1, 1 << 40, 10), 9)


def zigzag(x: Words) -> Ints:
    """Signed numbers of zigzag-coded ones."""
    return ((x >> _ONE) ^ (~(x & _ONE) + _ONE)).view(np.int64)


def fixed(buffer: Buffer, pos: Ints, kind: str) -> npt.NDArray[np.generic]:
    """The four- or eight-byte number under each cursor (its end is checked elsewhere)."""
    size = np.dtype(kind).itemsize
    words = buffer.words[pos]
    if size == 4:
        return words.astype(np.uint32).view(kind)
    return words.view(kind)


@frozen
class At:
    """Cursors: where each stands, where its record ends, and which record that is."""

    pos: Ints
    end: Ints
    rows: Rows

    def __len__(self) -> int:
        return len(self.pos)

    def some(self, which: Rows) -> At:
        """These cursors alone."""
        return At(self.pos[which], self.end[which], self.rows[which])

    def moved(self, buffer: Buffer, pos: Ints, fault: str) -> At:
        """The cursors moved on; one past its end is blamed and parked there."""
        over = pos > self.end
        if over.any():
            buffer.blame(self.rows[over], fault)
            pos = np.minimum(pos, self.end)
        return At(pos, self.end, self.rows)
