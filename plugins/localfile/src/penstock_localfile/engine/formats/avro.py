"""Avro container files, a few blocks at a time."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from attrs import evolve, frozen

from penstock.contracts.errors import ReadError, SetupError
from penstock_localfile.engine.compression import as_file
from penstock_localfile.engine.formats.base import Format, typed, typed_rows
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.parts import Range
from penstock_localfile.engine.storage import Storage

_RUN = 4 << 20


@frozen
class AvroFormat(Format):
    """Rows of Avro files; `position` is the record's number in its file.

    Attributes:
        given: The schema to read with; None: that of the first file.
    """

    given: Any = None

    def learns(self) -> bool:
        """Whether no schema was given."""
        return self.given is None and not self.learned

    def schema(self) -> pa.Schema:
        """The columns, and `_pen`."""
        return typed(self._coder().schema())

    def learn(self, storage: Storage, file: Logged) -> str:
        """The writer's schema of a file."""
        for _, content in self.expanding.documents(storage, file):
            return json.dumps(_header(as_file(content), file)[1])
        raise ReadError("the file holds nothing", got=shown(file.entry.path))

    def _coder(self) -> Any:
        try:
            from penstock.coders.avro.coder import AvroCoder
        except ImportError as error:
            raise SetupError(
                f"Avro files need a further package: {error}",
                fix='pip install "penstock[avro]"',
            ) from error
        given = self.given if self.given is not None else self.learned
        return AvroCoder(schema=given, framing="container", max_size=self.longest)

    def read(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        """The records of the file; blocks travel to the coder as small files of their own."""
        coder = self._coder()
        for inside, content in self.expanding.documents(storage, piece.file):
            at = 0
            for run in _runs(as_file(content), piece.file, self.longest):
                done = coder.decode(pa.array([run], pa.binary()))
                if done.errors:
                    raise ReadError(
                        f"an Avro file cannot be read: {done.errors[0].message}",
                        got=f"{shown(piece.file.entry.path)}, after record {at}",
                    )
                rows = evolve(done, origin=None).rows
                positions = pa.array(range(at, at + rows.num_rows), pa.int64())
                yield typed_rows(storage, piece.file, rows, positions, inside)
                at += rows.num_rows


def _header(stream: io.BufferedReader, file: Logged) -> tuple[bytes, Any, bytes]:
    """The header's bytes, the writer's schema, and the sync marker."""
    read = _Copying(stream)
    try:
        if read(4) != b"Obj\x01":
            raise ValueError("it does not begin as one")
        meta: dict[bytes, bytes] = {}
        while count := _long(read):
            if count < 0:
                _long(read)
            for _ in range(abs(count)):
                name = read(_long(read))
                meta[name] = read(_long(read))
        schema = json.loads(meta[b"avro.schema"])
        sync = read(16)
    except (ValueError, KeyError, EOFError) as error:
        raise ReadError(
            f"this is no Avro container file: {error}", got=shown(file.entry.path)
        ) from None
    return bytes(read.copy), schema, sync


def _runs(stream: io.BufferedReader, file: Logged, longest: int) -> Iterator[bytes]:
    header, _, sync = _header(stream, file)
    run = bytearray(header)
    while stream.peek(1):
        read = _Copying(stream)
        try:
            _long(read)
            size = _long(read)
            if not 0 <= size <= longest:
                raise ValueError(f"a block claims {size} bytes")
            read(size)
            if read(16) != sync:
                raise ValueError("a block does not end in the sync marker")
        except (ValueError, EOFError) as error:
            raise ReadError(
                f"an Avro file is broken or cut off: {error}", got=shown(file.entry.path)
            ) from None
        run += read.copy
        if len(run) > _RUN:
            yield bytes(run)
            run = bytearray(header)
    if len(run) > len(header):
        yield bytes(run)


class _Copying:
    """Reads exactly, and keeps what it read."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self.copy = bytearray()

    def __call__(self, size: int) -> bytes:
        if size < 0:
            raise ValueError("a negative length")
        data = self._stream.read(size)
        if len(data) < size:
            raise EOFError("it ends too early")
        self.copy += data
        return data


def _long(read: _Copying) -> int:
    shift = value = 0
    while True:
        byte = read(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
