"""Avro container files as messages: a header with the schema, then blocks of records.

Records in a block have no boundaries, so that they are read one after another (fastavro). What
a compressed block may grow to is bounded.
"""

from __future__ import annotations

import io
import json
import zlib
from typing import Any

import fastavro

from penstock.coders.avro.types import parse
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


def records(data: bytes, reader: Any, limit: int) -> list[Any]:
    """The records of a file.

    Raises:
        CodecError: it is no such file, is cut off, or grows beyond the limit.
    """
    stream = io.BytesIO(data)
    try:
        head: Any = fastavro.schemaless_reader(stream, fastavro.parse_schema(_HEADER), None)
        schema = json.loads(head["meta"]["avro.schema"])
    except (*_BROKEN, RecursionError):
        raise CodecError("it is no Avro container file") from None
    if head["magic"] != MAGIC:
        raise CodecError("it is no Avro container file")
    writer = _writer(schema)
    codec = head["meta"].get("avro.codec", b"null")
    found: list[Any] = []
    while stream.tell() < len(data):
        try:
            count = _long(stream)
            size = _long(stream)
        except _BROKEN:
            raise CodecError("the container file is cut off") from None
        if size < 0 or size > len(data) - stream.tell():
            raise CodecError("a block of the container file is cut off")
        block = _inflated(stream.read(size), codec, limit)
        limit -= len(block)
        if count < 0 or count > max(len(block), 1000):
            raise CodecError("a block claims more records than it has bytes")
        found += _block(block, count, writer, reader)
        if stream.read(16) != head["sync"]:
            raise CodecError("a block of the container file does not end with the sync marker")
    return found


def _writer(schema: Any) -> Any:
    """A file's own schema, as fastavro takes it.

    One that holds itself is refused: fastavro would follow its data until the stack is at its end.
    """
    try:
        parse(schema)
        return fastavro.parse_schema(schema)
    except SchemaError as error:
        raise CodecError(f"the schema in the container file: {error.message}") from None
    except (*_BROKEN, fastavro.schema.SchemaParseException, RecursionError):
        raise CodecError("the schema in the container file is none") from None


def _block(block: bytes, count: int, writer: Any, reader: Any) -> list[Any]:
    inner = io.BytesIO(block)
    try:
        found = [fastavro.schemaless_reader(inner, writer, reader) for _ in range(count)]
    except (*_BROKEN, fastavro.read.SchemaResolutionError) as error:
        raise CodecError(f"a record in the file cannot be read ({type(error).__name__})") from None
    if inner.tell() != len(block):
        raise CodecError("bytes are left over after the records of a block")
    return found


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
