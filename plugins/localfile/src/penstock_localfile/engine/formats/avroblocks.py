"""The blocks of an Avro container file, and the records in a block.

Records in a block have no boundaries: they are found by walking through them with the writer's
schema. One that cannot be walked through takes the rest of its block with it, and no more.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from attrs import frozen

from penstock.contracts.errors import CodecError, ReadError
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.parts import Range

_BROKEN = (EOFError, ValueError, TypeError, IndexError, KeyError, OverflowError, StopIteration)
_EMPTY = 1000  # records that take no bytes: their number is not bounded by the block's length
_HEADER = 64 << 20
_NOTHING = pa.array([], pa.binary())


@frozen
class Header:
    """What a container file begins with.

    Attributes:
        schema: The writer's, as JSON.
        codec: How blocks are compressed.
        sync: What each block ends with.
    """

    schema: str
    codec: str
    sync: bytes


@frozen
class Block:
    """Records as they lie in the file.

    Attributes:
        count: How many the writer says there are.
        data: Compressed.
        number: Of the first of them in its file.
    """

    count: int
    data: bytes
    number: int = 0


@frozen
class Found:
    """The records of a block.

    Attributes:
        values: Each record's bytes.
        rest: What could not be walked through; None if nothing is left.
        message: Why not.
    """

    values: pa.Array
    rest: bytes | None = None
    message: str = ""


def header(stream: io.BufferedReader, file: Logged) -> Header:
    """Read the header.

    Raises:
        ReadError: this is no Avro container file.
    """
    try:
        if _exactly(stream, 4) != b"Obj\x01":
            raise ValueError("it does not begin as one")
        meta: dict[bytes, bytes] = {}
        while count := _long(stream):
            if count < 0:
                _long(stream)
            for _ in range(abs(count)):
                name = _exactly(stream, _short(stream))
                meta[name] = _exactly(stream, _short(stream))
        schema = json.dumps(json.loads(meta[b"avro.schema"]))
        codec = meta.get(b"avro.codec", b"null").decode("ascii", "replace")
        sync = _exactly(stream, 16)
    except (ValueError, KeyError, EOFError, RecursionError) as error:
        raise ReadError(
            f"this is no Avro container file: {error}", got=shown(file.entry.path)
        ) from None
    if codec not in _EXPAND:
        raise ReadError(
            "the blocks of an Avro file are compressed in an unknown way",
            expected=", ".join(_EXPAND),
            got=f"{codec} in {shown(file.entry.path)}",
        )
    return Header(schema, codec, sync)


def blocks(
    stream: io.BufferedReader, head: Header, piece: Range, longest: int, *, cut: bool = False
) -> Iterator[Block]:
    """The blocks that follow the header; `cut`: those that begin in the range, of a seekable file.

    Raises:
        ReadError: the file is cut off, or what should be a block is none.
    """
    number = 0
    while stream.peek(1):
        at = stream.tell() if cut else 0
        if cut and at >= piece.end:
            return
        ours = not cut or at >= piece.start
        try:
            count, size = _long(stream), _long(stream)
            if count < 0 or not 0 <= size <= longest:
                raise ValueError(f"a block claims {count} records and {size} bytes")
            data = _exactly(stream, size) if ours else b""
            if not ours:
                stream.seek(size, io.SEEK_CUR)
            if _exactly(stream, 16) != head.sync:
                raise ValueError("a block does not end in the sync marker")
            if cut and stream.tell() > piece.file.entry.size:
                raise EOFError("it ends too early")
        except (ValueError, EOFError) as error:
            raise ReadError(
                f"an Avro file is broken or cut off: {error}", got=shown(piece.file.entry.path)
            ) from None
        if ours:
            yield Block(count, data, number)
        number += max(count, 1 if size else 0)  # bytes without a record are a bad record


class Walk:
    """Finds the records of blocks written with one schema.

    Args:
        head: Of the file.
        longest: What a block may grow to.

    Raises:
        SchemaError: the schema nests without bound; walking through its records could go too deep.
    """

    def __init__(self, head: Header, longest: int) -> None:
        from penstock.coders.avro import resolve, types, walk

        written = types.parse(head.schema)
        self._way = walk.Walk(resolve.resolve(written, written))
        self._expand = _EXPAND[head.codec]
        self._longest = longest

    def records(self, block: Block) -> Found:
        """The records of a block."""
        try:
            data = self._expand(block.data, self._longest)
        except (*_BROKEN, OSError, zlib.error, lzma.LZMAError, pa.ArrowInvalid) as error:
            said = f"a block of {block.count} records cannot be expanded: {error}"
            return Found(_NOTHING, block.data, said)
        if block.count > max(len(data), _EMPTY):
            said = f"a block of {len(data)} bytes claims {block.count} records"
            return Found(_NOTHING, data, said)
        ends, fault = self._ends(data, block.count)
        if fault:
            left = block.count - len(ends) + 1
            said = f"a record cannot be read: {fault}"
            if left > 1:
                said += f", nor be told from the {left - 1} after it in its block"
            return Found(_cut(data, ends), data[ends[-1] :], said)
        if ends[-1] < len(data):
            # Some record was longer than it looked, and it must not take the next block's number.
            del ends[max(len(ends) - 1, 1) :]
            said = "bytes are left over after the last record of a block"
            return Found(_cut(data, ends), data[ends[-1] :], said)
        return Found(_cut(data, ends))

    def _ends(self, data: bytes, count: int) -> tuple[list[int], str]:
        """Where records end, after a 0 for the beginning, and why the next cannot be walked."""
        try:
            starts, end = self._way.several(data, 0, count)
            return [*starts, end] if count else [0], ""
        except CodecError:
            pass  # all at once is faster; one by one tells which it is
        ends = [0]
        try:
            for _ in range(count):
                ends.append(self._way.several(data, ends[-1], 1)[1])
        except CodecError as error:
            return ends, error.message
        return ends, ""


def _cut(data: bytes, ends: list[int]) -> pa.Array:
    buffers = [None, pa.py_buffer(np.asarray(ends, np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


def _exactly(stream: io.BufferedReader, size: int) -> bytes:
    if size < 0:
        raise ValueError("a negative length")
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("it ends too early")
    return data


def _short(stream: io.BufferedReader) -> int:
    if (size := _long(stream)) > _HEADER:
        raise ValueError(f"its header claims {size} bytes")
    return size


def _long(stream: io.BufferedReader) -> int:
    shift = value = 0
    while True:
        byte = _exactly(stream, 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _within(made: bytes, whole: bool, longest: int) -> bytes:
    if not whole or len(made) > longest:
        raise ValueError(f"it is cut off, or grows beyond {longest} bytes")
    return made


def _deflate(data: bytes, longest: int) -> bytes:
    inflater = zlib.decompressobj(-15)
    return _within(inflater.decompress(data, longest), inflater.eof, longest)


def _bzip2(data: bytes, longest: int) -> bytes:
    unpacker = bz2.BZ2Decompressor()
    return _within(unpacker.decompress(data, longest), unpacker.eof, longest)


def _xz(data: bytes, longest: int) -> bytes:
    unpacker = lzma.LZMADecompressor()
    return _within(unpacker.decompress(data, longest), unpacker.eof, longest)


def _zstandard(data: bytes, longest: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        made: bytes = stream.read(longest + 1)
        return _within(made, True, longest)


def _snappy(data: bytes, longest: int) -> bytes:
    """Raw snappy, which begins with its size, and the checksum of what was compressed."""
    with io.BufferedReader(io.BytesIO(data)) as start:  # type: ignore[arg-type]
        size = shift = 0
        while (byte := _exactly(start, 1)[0]) >= 0x80 and shift < 35:
            size |= (byte & 0x7F) << shift
            shift += 7
        size |= byte << shift
    if size > longest:
        raise ValueError(f"it grows beyond {longest} bytes")
    made: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(made) != int.from_bytes(data[-4:], "big"):
        raise ValueError("its checksum is another")
    return made


_EXPAND: dict[str, Callable[[bytes, int], bytes]] = {
    "null": lambda data, longest: _within(data, True, longest),
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
