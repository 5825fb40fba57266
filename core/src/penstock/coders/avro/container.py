"""Avro container files as messages: a header with the schema, then blocks of records.

Records in a block have no boundaries, so that they are found by walking through them, and then
read together. What a compressed block may grow to is bounded.
"""

from __future__ import annotations

import io
import json
import zlib
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from attrs import frozen

from penstock.coders.avro.resolve import Plan
from penstock.coders.avro.types import Node, parse
from penstock.coders.avro.walk import MAX_EMPTY, Walk
from penstock.coders.parts import binary
from penstock.contracts.errors import CodecError, SchemaError

MAGIC = b"Obj\x01"
SYNC = bytes.fromhex("50656e73746f636b2061766f20202020")
_HEADER = {
    "type": "record",
    "name": "header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}
_BROKEN = (EOFError, ValueError, TypeError, IndexError, KeyError, OverflowError, StopIteration)


def header(schema: Any) -> bytes:
    """The first bytes of a file of this schema, not compressed."""
    out = io.BytesIO()
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": b"null"}
    value = {"magic": MAGIC, "meta": meta, "sync": SYNC}
    fastavro.schemaless_writer(out, fastavro.parse_schema(_HEADER), value)
    return out.getvalue()


@frozen
class File:
    """A file whose header has been read.

    Attributes:
        writer: Its own schema.
    """

    writer: Node
    _codec: bytes
    _sync: bytes
    _blocks: bytes

    def records(self, plan: Plan, limit: int) -> pa.Array:
        """The bytes of each record.

        Args:
            plan: How the reader's schema reads the file's.
            limit: What compressed blocks may grow to, together.

        Raises:
            CodecError: the file is cut off, grows beyond the limit, or says something impossible.
        """
        way, stream = Walk(plan), io.BytesIO(self._blocks)
        whole, edges = bytearray(), [0]
        while stream.tell() < len(self._blocks):
            count, block = self._next(stream, limit)
            limit -= len(block)
            try:
                starts, end = way.several(block, 0, count)
            except CodecError as error:
                said = f"a record in the file cannot be read: {error.message}"
                raise CodecError(said) from None
            if end != len(block):
                raise CodecError("bytes are left over after the records of a block")
            edges += [len(whole) + start for start in starts[1:]]
            edges += [len(whole) + end] if starts else []
            whole += block
            if not way.smallest and len(edges) > MAX_EMPTY + 1:
                raise CodecError("the file claims more records than it has bytes")
        return binary(bytes(whole), np.array(edges))

    def _next(self, stream: io.BytesIO, limit: int) -> tuple[int, bytes]:
        try:
            count, size = _long(stream), _long(stream)
        except _BROKEN:
            raise CodecError("the container file is cut off") from None
        if size < 0 or size > len(self._blocks) - stream.tell():
            raise CodecError("a block of the container file is cut off")
        block = _inflated(stream.read(size), self._codec, limit)
        if stream.read(16) != self._sync:
            raise CodecError("a block of the container file does not end with the sync marker")
        return count, block


def opened(data: bytes) -> File:
    """A file by its bytes.

    Raises:
        CodecError: it is no such file, or its schema is none that can be read.
    """
    stream = io.BytesIO(data)
    try:
        head: Any = fastavro.schemaless_reader(stream, fastavro.parse_schema(_HEADER), None)
        schema = json.loads(head["meta"]["avro.schema"])
    except (*_BROKEN, RecursionError):
        raise CodecError("it is no Avro container file") from None
    if head["magic"] != MAGIC:
        raise CodecError("it is no Avro container file")
    try:
        writer = parse(schema)
    except SchemaError as error:
        raise CodecError(f"the schema in the container file: {error.message}") from None
    codec = head["meta"].get("avro.codec", b"null")
    return File(writer, codec, head["sync"], data[stream.tell() :])


def _long(stream: io.BytesIO) -> int:
    found: Any = fastavro.schemaless_reader(stream, "long", None)
    return int(found)


def _inflated(block: bytes, codec: bytes, limit: int) -> bytes:
    if codec == b"null":
        return block
    if codec != b"deflate":
        name = codec.decode("ascii", "replace")[:20]
        raise CodecError(f"the container file is compressed with {name}; null and deflate are read")
    inflater = zlib.decompressobj(-15)
    try:
        found = inflater.decompress(block, limit)
    except zlib.error:
        raise CodecError("a block of the container file cannot be decompressed") from None
    if inflater.unconsumed_tail:
        raise CodecError("the container file grows beyond max_size")
    return found
