"""Writing Avro container files, a block of many records at a time."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.contracts.coder import RowError
from penstock.contracts.errors import SetupError
from penstock_localfile.engine.encodings import Sheet

_BLOCK = 64 << 10
_AT_ONCE = 1024


class AvroSheet(Sheet):
    """One open container file.

    Args:
        out: Where its bytes go.
        schema: The columns.
        deflate: Whether blocks are compressed.
    """

    def __init__(self, out: Any, schema: pa.Schema, deflate: bool) -> None:
        try:
            from penstock.coders.avro.coder import AvroCoder
        except ImportError as error:
            raise SetupError(
                f"Avro files need a further package: {error}", fix='pip install "penstock[avro]"'
            ) from error
        self._out = out
        self._coder = AvroCoder(schema=schema)
        self._deflate = deflate
        self._sync = os.urandom(16)
        self._held, self._count = bytearray(), 0
        meta = {
            b"avro.schema": json.dumps(json.loads(self._coder.text)).encode(),
            b"avro.codec": b"deflate" if deflate else b"null",
        }
        pairs = b"".join(_long(len(k)) + k + _long(len(v)) + v for k, v in meta.items())
        out.write(b"Obj\x01" + _long(len(meta)) + pairs + b"\x00" + self._sync)

    def write(self, rows: pa.RecordBatch) -> Sequence[RowError]:
        """Add rows; says which of them Avro cannot hold."""
        done = self._coder.encode(rows)
        values = done.values.drop_null()
        for at in range(0, len(values), _AT_ONCE):
            self._add(values.slice(at, _AT_ONCE))
        return done.errors

    def _add(self, values: pa.Array) -> None:
        offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :]
        start, end = int(offsets[0]), int(offsets[len(values)])
        if end > start:
            self._held += memoryview(values.buffers()[2])[start:end]
        self._count += len(values)
        if len(self._held) >= _BLOCK:
            self.close()

    def close(self) -> None:
        """Write what is held as a block."""
        if not self._count:
            return
        data = bytes(self._held)
        if self._deflate:
            packer = zlib.compressobj(6, zlib.DEFLATED, -15)
            data = packer.compress(data) + packer.flush()
        self._out.write(_long(self._count) + _long(len(data)) + data + self._sync)
        self._held, self._count = bytearray(), 0


def _long(number: int) -> bytes:
    """A number that is not negative, as Avro writes it."""
    left, out = number << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
