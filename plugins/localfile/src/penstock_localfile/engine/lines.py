"""Lines out of blocks of bytes, without a Python object per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from penstock.contracts.errors import ReadError
from penstock_localfile.engine.storage import Readable

BLOCK = 2 << 20


@frozen
class Lines:
    """A run of lines.

    Attributes:
        values: Without their line ends.
        starts: The offset of each line's first byte in the file (int64).
    """

    values: pa.Array
    starts: pa.Array


@frozen
class Ends:
    r"""Where lines end.

    Attributes:
        alone: A `\r` without a `\n` behind it ends a line, too.
    """

    alone: bool = False

    def last(self, data: bytes) -> int:
        """One past the last end that is surely whole; 0 if there is none."""
        cut = data.rfind(b"\n") + 1
        if self.alone:  # as the last byte it may be half of an end
            cut = max(cut, data.rfind(b"\r", cut, len(data) - 1) + 1)
        return cut

    def first(self, data: bytes, at: int) -> int:
        """One past the first end at `at` or behind it; 0 if there is none."""
        newline = data.find(b"\n", at)
        if self.alone:
            back = data.find(b"\r", at, len(data) if newline < 0 else newline)
            if back >= 0:
                return newline + 1 if newline == back + 1 else back + 1
        return newline + 1

    def ended(self, data: bytes) -> bytes:
        """The last bytes of a file with an end behind them."""
        there = data.endswith(b"\n") or (self.alone and data.endswith(b"\r"))
        return data if there else data + b"\n"

    def all(self, block: bytes) -> Any:
        """One past each end in a block, as a numpy array (int64)."""
        import numpy as np

        raw = np.frombuffer(block, np.uint8)
        found = raw == 10
        if self.alone and b"\r" in block:
            back = raw == 13
            back[:-1] &= ~found[1:]
            found |= back
        return np.flatnonzero(found) + 1

    def lines(self, block: bytes, base: int) -> Lines:
        """The lines of a block that ends in a line end."""
        if not self.alone or b"\r" not in block:
            return lines_of(block, base)
        import numpy as np

        raw = np.frombuffer(block, np.uint8)
        ends = self.all(block)
        keep = (raw != 10) & (raw != 13)
        offsets = np.zeros(len(ends) + 1, np.int32)
        offsets[1:] = np.cumsum(keep)[ends - 1]
        return _lines(ends, offsets, raw[keep].tobytes(), base)


NEWLINE = Ends()
ANY_END = Ends(alone=True)


def line_ends(block: bytes) -> Any:
    """One past each newline in a block, as a numpy array (int64)."""
    return NEWLINE.all(block)


def read_lines(
    file: Readable, start: int, end: int, *, longest: int, block: int = BLOCK, ends: Ends = NEWLINE
) -> Iterator[Lines]:
    """The lines of the blocks that `read_blocks` gives."""
    for data, at in read_blocks(file, start, end, longest=longest, block=block, ends=ends):
        yield ends.lines(data, at)


def read_blocks(
    file: Readable, start: int, end: int, *, longest: int, block: int = BLOCK, ends: Ends = NEWLINE
) -> Iterator[tuple[bytes, int]]:
    """The lines whose first byte lies in [start, end), of a file opened at max(start - 1, 0).

    They come as blocks of whole lines, the last line end added if it is missing, each with its
    offset. Opened one byte early, because only the byte before `start` tells whether a line begins there.

    Raises:
        ReadError: a line is longer than `longest` bytes.
    """
    at = max(start - 1, 0)
    carry = rest = b""
    if start > 0:
        at, rest = _first_line(file, at, end, longest, block, ends)
    while at < end:
        fresh, rest = rest or file.read(block), b""
        if not fresh:
            if not carry:
                return
            carry, fresh = b"", ends.ended(carry)
            last = len(fresh)
        else:
            if carry and ends.alone and carry.endswith(b"\r"):  # was it the half of an end?
                carry, fresh = b"", carry + fresh
            last = ends.last(fresh)
        if last == 0:
            carry += fresh
            if len(carry) - carry.endswith(b"\r") > longest:
                raise _too_long(at, longest)
            continue
        whole = b"".join((carry, memoryview(fresh)[:last]))
        carry = fresh[last:]
        cut = len(whole)
        if at + cut >= end:
            # The line that holds the last byte of the range is ours to its end; no later one.
            yield _bounded(whole[: ends.first(whole, end - at - 1)], at, longest, ends), at
            return
        yield _bounded(whole, at, longest, ends), at
        at += cut


def _first_line(
    file: Readable, at: int, end: int, longest: int, block: int, ends: Ends
) -> tuple[int, bytes]:
    """Skip to the first line that begins after `at`: its offset, and bytes already read."""
    skipped = 0
    while at < end:
        fresh = file.read(block)
        while ends.alone and fresh.endswith(b"\r") and (more := file.read(block)):
            fresh += more
        if not fresh:
            return end, b""
        cut = ends.first(fresh, 0)
        if cut:
            at += cut
            return (at, fresh[cut:]) if at < end else (end, b"")
        at += len(fresh)
        skipped += len(fresh)
        if skipped > longest:
            raise _too_long(at - skipped, longest)
    return end, b""


def _bounded(block: bytes, at: int, longest: int, ends: Ends) -> bytes:
    """The block, if none of its lines is too long: only one longer than the bound can hold such."""
    if len(block) > longest:
        run = ends.lines(block, at)
        longer = pc.indices_nonzero(pc.greater(pc.binary_length(run.values), longest))
        if len(longer):
            raise _too_long(run.starts[longer[0].as_py()].as_py(), longest)
    return block


def lines_of(block: bytes, base: int) -> Lines:
    """The lines of a block that ends in a newline."""
    import numpy as np

    ends = line_ends(block)
    if b"\r" in block and b"\r\n" in block:
        raw = np.frombuffer(block, np.uint8)
        newline = raw == 10
        keep = ~newline
        keep[:-1] &= ~((raw[:-1] == 13) & newline[1:])
        kept = np.cumsum(keep)
        offsets = np.zeros(len(ends) + 1, np.int32)
        offsets[1:] = kept[ends - 1]
        body = raw[keep].tobytes()
    else:
        body = block.replace(b"\n", b"")
        offsets = np.empty(len(ends) + 1, np.int32)
        offsets[0] = 0
        offsets[1:] = ends - np.arange(1, len(ends) + 1)
    return _lines(ends, offsets, body, base)


def _lines(ends: Any, offsets: Any, body: bytes, base: int) -> Lines:
    import numpy as np

    starts = np.empty(len(ends), np.int64)
    starts[0] = 0
    starts[1:] = ends[:-1]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(body)]
    values = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
    return Lines(values, pa.array(starts + base))


def _too_long(at: int, longest: int) -> ReadError:
    return ReadError(
        f"a line is longer than {longest} bytes",
        got=f"the line at byte {at}",
        fix="raise max_record_bytes, or read the file with format=whole",
    )
