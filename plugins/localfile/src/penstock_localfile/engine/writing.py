"""One task's share of a batch: rows into files under temporary names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from penstock.contracts import Batch, Receipt, Rejected, Writer
from penstock.contracts.errors import SchemaError, WriteError
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.publishing import Published, Publisher
from penstock_localfile.engine.storage import Writable


class Encoding(ABC):
    """How rows become the bytes of a file. A picklable value."""

    suffix: str = ""

    @abstractmethod
    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """The columns it takes of rows of this schema, or a SchemaError."""

    @abstractmethod
    def encode(self, rows: pa.RecordBatch) -> tuple[bytes, Rejected | None]:
        """The bytes of rows, and those rows that cannot be written."""


@frozen
class LinesEncoding(Encoding):
    """One line per row of a single column of text or bytes."""

    suffix = ".txt"

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """The column `value`, or the only one."""
        own = [f for f in schema if f.name != "_pen"]
        named = [f for f in own if f.name == "value"]
        chosen = named or own
        if len(chosen) == 1 and _is_bytes_like(chosen[0].type):
            return pa.schema([pa.field(chosen[0].name, pa.binary())])
        raise SchemaError(
            "lines are made of one column of text or bytes",
            expected="a column named value, or a single column",
            got=", ".join(f"{f.name} {f.type}" for f in own),
            fix="select one column, or encode the rows first",
        )

    def encode(self, rows: pa.RecordBatch) -> tuple[bytes, Rejected | None]:
        """Values joined by newlines; null and values with a newline inside are refused."""
        values = rows.column(0)
        broken = pc.fill_null(pc.match_substring(values, "\n"), True)
        rejected = None
        if pc.any(broken).as_py():
            bad = rows.filter(broken)
            reasons = [
                "null cannot be a line" if missing else "the value holds a newline"
                for missing in bad.column(0).is_null().to_pylist()
            ]
            rejected = Rejected(bad, reasons)
            values = values.filter(pc.invert(broken))
        if len(values) == 0:
            return b"", rejected
        offsets = pa.array([0, len(values)], pa.int32())
        joined = pc.binary_join(pa.ListArray.from_arrays(offsets, values), b"\n")
        return joined[0].as_py() + b"\n", rejected


def _is_bytes_like(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )


class FileWriter(Writer):
    """Writes one task's rows to one file."""

    def __init__(
        self, publisher: Publisher, encoding: Encoding, batch: Batch, temporary: bytes, final: bytes
    ) -> None:
        self._publisher = publisher
        self._encoding = encoding
        self._batch = batch
        self._temporary = temporary
        self._final = final
        self._file: Writable | None = None
        self._rows = 0
        self._size = 0
        self._rejected: list[Rejected] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Encode and write."""
        data, rejected = self._encoding.encode(rows)
        if rejected is not None:
            self._rejected.append(rejected)
        self._rows += rows.num_rows - (rejected.rows.num_rows if rejected else 0)
        if data:
            if self._file is None:
                self._file = self._publisher.storage.create(self._temporary)
            self._file.write(data)
            self._size += len(data)

    def close(self) -> Receipt:
        """Make the file durable under its temporary name; a task without rows leaves no file."""
        files = []
        if self._file is not None:
            self._file.close()
            made = Published(
                shown(self._temporary), shown(self._final), rows=self._rows, size=self._size
            )
            files.append(made.as_json())
        return Receipt(rows=self._rows, payload={"files": files}, rejected=tuple(self._rejected))

    def abort(self) -> None:
        """Remove what was written."""
        if self._file is not None:
            with suppress(WriteError):  # a full disk fails the close too; the file goes anyway
                self._file.close()
            self._publisher.storage.remove(self._temporary)
