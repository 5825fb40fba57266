"""Avro container files, a few blocks at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import frozen

from penstock.contracts.coder import Decoded, RowError
from penstock.contracts.errors import ReadError, SchemaError, SetupError
from penstock_localfile.engine.compression import as_file, seekable
from penstock_localfile.engine.formats.avroblocks import Walk, blocks, header
from penstock_localfile.engine.formats.base import Format, decoded_rows, typed
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.parts import Range
from penstock_localfile.engine.storage import Storage

_RUN = 16_384
_STEP = 1 << 16


@frozen
class AvroFormat(Format):
    """Rows of Avro files; `position` is the record's number in its file.

    Attributes:
        given: The schema to read with; None: that of the first file.
    """

    given: Any = None
    by_ranges = True
    walks = True

    def learns(self) -> bool:
        """Whether no schema was given."""
        return self.given is None and not self.learned

    def schema(self) -> pa.Schema:
        """The columns, and `_pen`."""
        return typed(self._coder().schema())

    def learn(self, storage: Storage, file: Logged) -> str:
        """The writer's schema of a file."""
        for _, content in self.expanding.documents(storage, file):
            return header(as_file(content), file).schema
        raise ReadError("the file holds nothing", got=shown(file.entry.path))

    def _coder(self, writer: str | None = None) -> Any:
        try:
            from penstock.coders.avro.coder import AvroCoder
        except ImportError as error:
            raise SetupError(
                f"Avro files need a further package: {error}",
                fix='pip install "penstock[avro]"',
            ) from error
        given = self.given if self.given is not None else self.learned
        return AvroCoder(schema=given, writer=writer)

    def read(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        """The records of the blocks that begin in the range; a bad one harms no other block."""
        if not piece.whole and self.divides(piece.file.entry.path):
            with seekable(storage, piece.file) as raw, io.BufferedReader(raw, _STEP) as stream:  # type: ignore[type-var]
                yield from self._records(storage, piece, stream, cut=True)
            return
        for inside, content in self.expanding.documents(storage, piece.file):
            yield from self._records(storage, piece, as_file(content), inside)

    def _records(
        self,
        storage: Storage,
        piece: Range,
        stream: io.BufferedReader,
        inside: str = "",
        *,
        cut: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        head = header(stream, piece.file)
        coder, held = self._coder(head.schema), _Held()
        try:
            walk = Walk(head, self.longest)
        except SchemaError as error:
            raise ReadError(
                f"the schema of an Avro file cannot be used: {error.message}",
                got=shown(piece.file.entry.path),
            ) from error
        for block in blocks(stream, head, piece, self.longest, cut=cut):
            held.add(walk.records(block), block.number)
            if held.rows >= _RUN:
                yield held.decoded(coder, storage, piece.file, inside)
                held = _Held()
        if held.rows:
            yield held.decoded(coder, storage, piece.file, inside)


class _Held:
    """Records of some blocks, waiting to be decoded together."""

    def __init__(self) -> None:
        self._values: list[pa.Array] = []
        self._positions: list[Any] = []
        self._errors: list[RowError] = []
        self.rows = 0

    def add(self, found: Any, first: int) -> None:
        self._values.append(found.values)
        number = len(found.values)
        if found.rest is not None:
            self._values.append(pa.array([found.rest], pa.binary()))
            self._errors.append(RowError(row=self.rows + number, message=found.message))
            number += 1
        self._positions.append(np.arange(first, first + number))
        self.rows += number

    def decoded(self, coder: Any, storage: Storage, file: Logged, inside: str) -> pa.RecordBatch:
        values = pa.concat_arrays(self._values)
        positions = pa.array(np.concatenate(self._positions), pa.int64())
        return decoded_rows(storage, file, self._decode(coder, values), values, positions, inside)

    def _decode(self, coder: Any, values: pa.Array) -> Decoded:
        if not self._errors:
            return coder.decode(values)  # type: ignore[no-any-return]
        known = np.ones(len(values), bool)
        known[[e.row for e in self._errors]] = False
        rows = np.flatnonzero(known)
        done = coder.decode(values.take(pa.array(rows)))
        origin = rows if done.origin is None else rows[np.asarray(done.origin)]
        errors = [RowError(row=int(rows[e.row]), message=e.message) for e in done.errors]
        both = sorted([*errors, *self._errors], key=lambda e: e.row)
        return Decoded(done.rows, pa.array(origin, pa.int32()), tuple(both))
