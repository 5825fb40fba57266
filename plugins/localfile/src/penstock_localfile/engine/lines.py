"""Lines out of blocks of bytes, without a Python object per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
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


def line_ends(block: bytes) -> Any:
    """One past each newline in a block, as a numpy array (int64)."""
    import numpy as np

    return np.flatnonzero(np.frombuffer(block, np.uint8) == 10) + 1


def read_lines(
    file: Readable, start: int, end: int, *, longest: int, block: int = BLOCK
) -> Iterator[Lines]:
    """The lines of the blocks that `read_blocks` gives."""
    for data, at in read_blocks(file, start, end, longest=longest, block=block):
        yield lines_of(data, at)


def read_blocks(
    file: Readable, start: int, end: int, *, longest: int, block: int = BLOCK
) -> Iterator[tuple[bytes, int]]:
    """The lines whose first byte lies in [start, end), of a file opened at max(start - 1, 0).

    They come as blocks of whole lines, the last line end added if it is missing, each with its
    offset. Opened one byte early, because only the byte before `start` tells whether a line begins there.

    Raises:
        ReadError: a line is longer than `longest` bytes.
    """
    at = max(start - 1, 0)
    carry = b""
    if start > 0:
        at, carry = _first_line(file, at, end, longest, block)
    while at < end:
        fresh = file.read(block)
        if not fresh:
            if not carry:
                return
            carry, fresh = b"", carry if carry.endswith(b"\n") else carry + b"\n"
        last = fresh.rfind(b"\n") + 1
        if last == 0:
            carry += fresh
            if len(carry) > longest:
                raise _too_long(at, longest)
            continue
        whole = b"".join((carry, memoryview(fresh)[:last]))
        carry = fresh[last:]
        cut = len(whole)
        if at + cut >= end:
            # The line that holds the last byte of the range is ours to its end; no later one.
            last = whole.find(b"\n", end - at - 1) + 1
            yield whole[:last], at
            return
        yield whole, at
        at += cut


def _first_line(file: Readable, at: int, end: int, longest: int, block: int) -> tuple[int, bytes]:
    """Skip to the first line that begins after `at`: its offset, and bytes already read."""
    skipped = 0
    while at < end:
        fresh = file.read(block)
        if not fresh:
            return end, b""
        newline = fresh.find(b"\n")
        if newline >= 0:
            at += newline + 1
            return (at, fresh[newline + 1 :]) if at < end else (end, b"")
        at += len(fresh)
        skipped += len(fresh)
        if skipped > longest:
            raise _too_long(at - skipped, longest)
    return end, b""


def lines_of(block: bytes, base: int) -> Lines:
    """The lines of a block that ends in a newline."""
    import numpy as np

    ends = line_ends(block)
    starts = np.empty(len(ends), np.int64)
    starts[0] = 0
    starts[1:] = ends[:-1]
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
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(body)]
    values = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
    return Lines(values, pa.array(starts + base))


def _too_long(at: int, longest: int) -> ReadError:
    return ReadError(
        f"a line is longer than {longest} bytes",
        got=f"the line at byte {at}",
        fix="raise max_record_bytes, or read the file with format=whole",
    )
