"""Parquet files, by row groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from penstock.coders.isolate import isolate
from penstock.coders.parts import assemble
from penstock.coders.schema import parse_schema
from penstock.contracts.coder import Decoded
from penstock.contracts.envelope import spark_form
from penstock.contracts.errors import ReadError
from penstock_localfile.engine.compression import seekable
from penstock_localfile.engine.formats.base import (
    Format,
    decoded_rows,
    from_text,
    to_text,
    typed,
)
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.parts import Range
from penstock_localfile.engine.storage import Storage

_ROWS = 32_768


@frozen
class ParquetFormat(Format):
    """Rows of Parquet files; `position` is the row's number in its file.

    Attributes:
        given: The columns to read; None: those of the first file.
    """

    given: Any = None
    by_ranges = True

    def learns(self) -> bool:
        """Whether no schema was given."""
        return self.given is None and not self.learned

    def columns(self) -> pa.Schema:
        """The columns that are read."""
        return parse_schema(self.given) if self.given is not None else from_text(self.learned)

    def schema(self) -> pa.Schema:
        """The columns, and `_pen`."""
        return typed(self.columns())

    def learn(self, storage: Storage, file: Logged) -> str:
        """The schema in the file's footer, in the types Spark has."""
        with seekable(storage, file) as raw, _opened(raw, file) as table:
            return to_text(spark_form(table.schema_arrow.remove_metadata()))

    def divides(self, path: bytes) -> bool:
        """Always: compression is inside the file."""
        return True

    def read(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        """The row groups that begin in the range."""
        columns = self.columns()
        with seekable(storage, piece.file) as raw, _opened(raw, piece.file) as table:
            _refuse_missing(columns, table.schema_arrow, piece.file)
            at = 0
            for group in range(table.num_row_groups):
                facts = table.metadata.row_group(group)
                if piece.start <= _begin(facts) < piece.end:
                    yield from self._group(storage, piece.file, table, group, at, columns)
                at += facts.num_rows

    def _group(
        self,
        storage: Storage,
        file: Logged,
        table: pq.ParquetFile,
        group: int,
        at: int,
        columns: pa.Schema,
    ) -> Iterator[pa.RecordBatch]:
        try:
            for rows in table.iter_batches(
                _ROWS, row_groups=[group], columns=columns.names, use_threads=False
            ):
                positions = pa.array(np.arange(at, at + rows.num_rows, dtype=np.int64))
                done, values = _converted(rows, columns)
                yield decoded_rows(storage, file, done, values, positions)
                at += rows.num_rows
        except (pa.ArrowInvalid, OSError) as error:
            raise _broken(error, file) from error


def _converted(rows: pa.RecordBatch, columns: pa.Schema) -> tuple[Decoded, pa.Array]:
    """The rows in the columns that were asked for, and in words those that do not fit them.

    Parquet has no bytes of a single record: its values as JSON stand for them.
    """
    if rows.schema.equals(columns):
        return Decoded(rows), pa.nulls(0, pa.binary())

    def attempt(start: int, stop: int) -> pa.RecordBatch:
        some = rows.slice(start, stop - start)
        arrays = [some.column(f.name).cast(f.type) for f in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=columns)

    runs, errors = isolate(rows.num_rows, attempt)
    done = assemble(runs, errors, None, columns, rows.num_rows)
    if not errors:
        return done, pa.nulls(0, pa.binary())
    words: list[bytes | None] = [None] * rows.num_rows
    for error in errors:
        (record,) = rows.slice(error.row, 1).to_pylist()
        words[error.row] = json.dumps(record, default=str, ensure_ascii=False).encode()
    return done, pa.array(words, pa.binary())


def _refuse_missing(columns: pa.Schema, there: pa.Schema, file: Logged) -> None:
    for name in columns.names:
        if there.get_field_index(name) < 0:
            raise ReadError(
                f"the column {name} is missing in a Parquet file",
                expected=", ".join(columns.names),
                got=f"{', '.join(there.names)} in {shown(file.entry.path)}",
            )


def _begin(group: Any) -> int:
    if group.num_columns == 0:
        return 0
    column = group.column(0)
    dictionary = column.dictionary_page_offset
    return int(column.data_page_offset if dictionary is None else dictionary)


def _opened(raw: Any, file: Logged) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(raw)
    except (pa.ArrowInvalid, OSError) as error:
        raise _broken(error, file) from error


def _broken(error: Exception, file: Logged) -> ReadError:
    return ReadError(f"a Parquet file cannot be read: {error}", got=shown(file.entry.path))
