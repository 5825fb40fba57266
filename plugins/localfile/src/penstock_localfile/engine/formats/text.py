"""CSV and JSON: typed rows out of lines, or out of whole documents."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
from attrs import frozen

from penstock.coders.csv import CsvCoder
from penstock.coders.isolate import BAD
from penstock.coders.json import JsonCoder
from penstock.coders.jsonread import infer
from penstock.coders.schema import parse_schema
from penstock.contracts.coder import Coder
from penstock.contracts.errors import ReadError, SchemaError
from penstock_localfile.engine.formats.base import (
    Format,
    decoded_rows,
    from_text,
    to_text,
    typed,
    typed_rows,
)
from penstock_localfile.engine.formats.plain import LinesFormat, whole
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.lines import Lines, line_ends, lines_of, read_lines
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.parts import Range
from penstock_localfile.engine.storage import Storage

_SAMPLE = 1 << 20
_BOM = b"\xef\xbb\xbf"


@frozen
class TextFormat(Format):
    """What CSV and JSON share.

    Attributes:
        given: The schema as the user gave it; None: learned from the first file.
        lines: A record per line; else the whole file is one document.
    """

    given: Any = None
    lines: bool = True

    @property
    def by_lines(self) -> bool:  # type: ignore[override]
        """Whether ranges can be read."""
        return self.lines

    def learns(self) -> bool:
        """Whether no schema was given."""
        return self.given is None and not self.learned

    def columns(self) -> pa.Schema:
        """The columns of the records."""
        return parse_schema(self.given) if self.given is not None else from_text(self.learned)

    def schema(self) -> pa.Schema:
        """The columns, and `_pen`."""
        return typed(self.columns())

    def learn(self, storage: Storage, file: Logged) -> str:
        """A schema inferred from the beginning of a file."""
        for _, content in self.expanding.documents(storage, file):
            sample = b""
            while len(sample) < _SAMPLE and (data := content.read(_SAMPLE)):
                sample += data
            if len(sample) >= _SAMPLE and self.lines:
                sample = sample[: sample.rfind(b"\n") + 1]
            try:
                return to_text(parse_schema(self.infer(sample.removeprefix(_BOM))))
            except (pa.ArrowInvalid, SchemaError) as error:
                raise SchemaError(
                    f"no schema can be inferred: {error}",
                    got=shown(file.entry.path),
                    fix='give one: schema="id BIGINT, name STRING"',
                ) from None
        raise SchemaError("the file holds nothing", got=shown(file.entry.path), fix="give a schema")

    def infer(self, sample: bytes) -> pa.Schema:
        """The schema of a sample."""
        raise NotImplementedError

    def read(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        """The records that begin in the range."""
        if self.lines:
            yield from self._by_line(storage, piece)
            return
        coder = self.document_coder()
        for inside, content in self.expanding.documents(storage, piece.file):
            values = pa.array([whole(content, piece.file, self.longest)], pa.binary())
            done = coder.decode(values)
            rows = max(done.rows.num_rows, 1)
            positions = pa.array(range(rows), pa.int64())
            if done.errors:
                yield decoded_rows(storage, piece.file, done, values, positions, inside)
            elif done.rows.num_rows:
                placed = attrs.evolve(done, origin=None)
                yield decoded_rows(storage, piece.file, placed, values, positions, inside)

    def _by_line(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        plain = LinesFormat(self.expanding, self.longest)
        names = self.columns().names
        coder: Any = None
        current: str | None = None
        for inside, data, at in plain.runs(storage, piece):
            if inside != current:
                coder, current = None, inside
            if coder is None:
                coder = self.line_coder(storage, piece, _first_line(data) if at == 0 else None)
            if at == 0:
                data, at = self.body(data)
            if not data:
                continue
            ends = line_ends(data)
            rows = _at_once(coder, data, ends)
            if rows is not None:
                starts = pa.array(np.concatenate(([0], ends[:-1])) + at)
                yield typed_rows(storage, piece.file, rows.select(names), starts, inside)
                continue
            kept = _not_blank(lines_of(data, at))
            if len(kept.values):
                done = coder.decode(kept.values)
                if done.rows.schema.names != names:
                    done = attrs.evolve(done, rows=done.rows.select(names))
                yield decoded_rows(storage, piece.file, done, kept.values, kept.starts, inside)

    def line_coder(self, storage: Storage, piece: Range, first: bytes | None) -> Coder:
        """The coder of the lines of one content; `first` is its first line if it is in here."""
        raise NotImplementedError

    def document_coder(self) -> Coder:
        """The coder of whole documents."""
        raise NotImplementedError

    def body(self, data: bytes) -> tuple[bytes, int]:
        """The first block of a content without what is no record, and where that begins."""
        at = len(_BOM) if data.startswith(_BOM) else 0
        return data[at:], at


@frozen
class JsonFormat(TextFormat):
    """An object per line, or a file that is an array of objects."""

    def infer(self, sample: bytes) -> pa.Schema:
        """The schema of the objects in a sample."""
        return infer([line for line in sample.splitlines() if line.strip()])

    def line_coder(self, storage: Storage, piece: Range, first: bytes | None) -> Coder:
        """One object per line."""
        return JsonCoder(schema=self.columns())

    def document_coder(self) -> Coder:
        """An array of objects."""
        return JsonCoder(schema=self.columns(), layout="array")


@frozen
class CsvFormat(TextFormat):
    """A record per line, or per several lines where quoted fields hold line ends.

    Attributes:
        header: The first line of each file names its columns, in any order.
        settings: Delimiter, quote and null of the coder.
    """

    header: bool = True
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, sample: bytes) -> pa.Schema:
        """The schema of a sample."""
        settings = dict(self.settings)
        return pcsv.read_csv(
            pa.BufferReader(sample),
            read_options=pcsv.ReadOptions(autogenerate_column_names=not self.header),
            parse_options=pcsv.ParseOptions(
                delimiter=settings["delimiter"],
                quote_char=settings["quote"],
                newlines_in_values=not self.lines,
            ),
        ).schema

    def line_coder(self, storage: Storage, piece: Range, first: bytes | None) -> Coder:
        """The columns in the order of this file's header."""
        wanted = self.columns()
        if not self.header:
            return self._coder(wanted)
        if first is None:
            first = self._header_of(storage, piece.file)
        names = self._names(first)
        missing = [name for name in wanted.names if name not in names]
        if missing:
            raise ReadError(
                f"the header lacks the column {missing[0]}",
                expected=", ".join(wanted.names),
                got=f"{', '.join(names)} in {shown(piece.file.entry.path)}",
            )
        if names == wanted.names:
            return self._coder(wanted)
        kinds = {f.name: f.type for f in wanted}
        there = pa.schema([pa.field(name, kinds.get(name, pa.string())) for name in names])
        return self._coder(there).narrowed(wanted.names)

    def document_coder(self) -> Coder:
        """All lines of a file at once."""
        return self._coder(self.columns(), layout="lines", header=self.header)

    def body(self, data: bytes) -> tuple[bytes, int]:
        """Without the header, too."""
        at = data.index(b"\n") + 1
        return (data[at:], at) if self.header else super().body(data)

    def _coder(self, schema: pa.Schema, **more: Any) -> CsvCoder:
        return CsvCoder(schema=schema, **dict(self.settings), **more)

    def _names(self, first: bytes) -> list[str]:
        settings = dict(self.settings)
        text = first.removeprefix(_BOM).decode("utf-8", "replace")
        found = csv.reader([text], delimiter=settings["delimiter"], quotechar=settings["quote"])
        return next(found, [])

    def _header_of(self, storage: Storage, file: Logged) -> bytes:
        with self.expanding.opened(storage, file) as content:
            for run in read_lines(content, 0, 1, longest=self.longest, block=64 << 10):
                return run.values[0].as_py()
        return b""


def _first_line(data: bytes) -> bytes:
    return data[: data.index(b"\n")].removesuffix(b"\r")


def _at_once(coder: Any, data: bytes, ends: Any) -> pa.RecordBatch | None:
    """The records of whole lines; None if they are to be decoded one by one."""
    if ends[0] == 1 or (np.diff(ends) == 1).any():
        return None  # blank lines are passed over
    if data.startswith(_BOM):
        return None  # one more than the file's own: Arrow would take it away as well
    try:
        return coder.lines(data, ends)  # type: ignore[no-any-return]
    except BAD:
        return None


def _not_blank(run: Lines) -> Lines:
    lengths = pc.binary_length(run.values)
    if len(lengths) and pc.min(lengths).as_py() == 0:
        filled = pc.greater(lengths, 0)
        return Lines(run.values.filter(filled), run.starts.filter(filled))
    return run
