"""How rows become the bytes of a file that is being written."""

from __future__ import annotations

import gzip
from abc import ABC, abstractmethod
from bz2 import BZ2File
from collections.abc import Sequence
from typing import IO, Any, cast

import pyarrow as pa
from attrs import frozen

from penstock.coders.csvwrite import write_rows as csv_rows
from penstock.coders.jsonwrite import write_rows as json_rows
from penstock.contracts.coder import RowError
from penstock.contracts.compute import pc
from penstock.contracts.errors import SchemaError
from penstock_localfile.engine.packed import Packed
from penstock_localfile.engine.storage import Writable


class Counting:
    """A file being written, and how many bytes have gone into it."""

    def __init__(self, inner: Writable) -> None:
        self._inner = inner
        self.size = 0
        self.closed = False
        self.mode = "wb"

    def write(self, data: Any) -> int:
        """Take bytes."""
        raw = bytes(data)
        self._inner.write(raw)
        self.size += len(raw)
        return len(raw)

    def flush(self) -> None:
        """Hand them on."""
        self._inner.flush()

    def writable(self) -> bool:
        """Yes."""
        return True

    def readable(self) -> bool:
        """No."""
        return False

    def seekable(self) -> bool:
        """No."""
        return False

    def close(self) -> None:
        """Nothing: whoever made the file closes it, durably."""


class Sheet(ABC):
    """One open file of some encoding."""

    @abstractmethod
    def write(self, rows: pa.RecordBatch) -> Sequence[RowError]:
        """Add rows; says which of them this encoding cannot hold, in order."""

    @abstractmethod
    def close(self) -> None:
        """Write what belongs at the end."""


class Encoding(ABC):
    """A format of files to write. A picklable value."""

    suffix: str = ""
    packs = True
    """Whether it can be compressed as a stream."""

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """The columns it takes of rows of this schema, or a SchemaError."""
        return pa.schema([f for f in schema if f.name != "_pen"])

    @abstractmethod
    def open(self, out: Any, schema: pa.Schema) -> Sheet:
        """Begin a file."""


class BytesSheet(Sheet):
    """A file that is a sequence of encoded rows."""

    def __init__(self, out: Any, encode: Any, head: bytes = b"") -> None:
        self._out = out
        self._encode = encode
        if head:
            out.write(head)

    def write(self, rows: pa.RecordBatch) -> Sequence[RowError]:
        """Encode and write."""
        data, errors = self._encode(rows)
        if data:
            self._out.write(data)
        return cast("Sequence[RowError]", errors)

    def close(self) -> None:
        """Nothing belongs at the end."""


@frozen
class LinesEncoding(Encoding):
    """One line per row of a single column of text or bytes."""

    suffix = ".txt"

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """The column `value`, or the only one."""
        own = [f for f in schema if f.name != "_pen"]
        named = [f for f in own if f.name == "value"]
        chosen = named or own
        if len(chosen) == 1 and is_bytes_like(chosen[0].type):
            return pa.schema([pa.field(chosen[0].name, pa.binary())])
        raise SchemaError(
            "lines are made of one column of text or bytes",
            expected="a column named value, or a single column",
            got=", ".join(f"{f.name} {f.type}" for f in own),
            fix="select one column, or choose format=csv, json or parquet",
        )

    def open(self, out: Any, schema: pa.Schema) -> Sheet:
        """Begin a file."""
        return BytesSheet(out, self.encode)

    def encode(self, rows: pa.RecordBatch) -> tuple[bytes, Sequence[RowError]]:
        """Values joined by newlines; null and values with a newline inside are refused."""
        values = rows.column(0)
        broken = pc.fill_null(pc.match_substring(values, "\n"), True)
        if not pc.any(broken).as_py():
            return joined(values), ()
        missing = values.is_null().to_pylist()
        errors = [
            RowError(at, "null cannot be a line" if missing[at] else "the value holds a newline")
            for at in pc.indices_nonzero(broken).to_pylist()
        ]
        return joined(values.filter(pc.invert(broken))), errors


@frozen
class CsvEncoding(Encoding):
    """A record per row; null is an empty field without quotes."""

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    null: str = ""
    suffix = ".csv"

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """Flat columns."""
        for field in (own := super().accepts(schema)):
            if pa.types.is_nested(field.type):
                raise SchemaError(
                    f"the column {field.name} is nested, and CSV is flat",
                    got=str(field.type),
                    fix="choose format=json or parquet, or flatten it",
                )
        return own

    def open(self, out: Any, schema: pa.Schema) -> Sheet:
        """Begin with the names of the columns."""
        names = pa.RecordBatch.from_pydict({name: [name] for name in schema.names})
        head = csv_rows(names, self.delimiter, self.quote, self.null)[0].as_py() + b"\n"
        return BytesSheet(out, self._encode, head if self.header else b"")

    def _encode(self, rows: pa.RecordBatch) -> tuple[bytes, Sequence[RowError]]:
        return joined(csv_rows(rows, self.delimiter, self.quote, self.null)), ()


@frozen
class JsonEncoding(Encoding):
    """An object per line."""

    suffix = ".json"

    def open(self, out: Any, schema: pa.Schema) -> Sheet:
        """Begin a file."""
        return BytesSheet(out, self._encode)

    def _encode(self, rows: pa.RecordBatch) -> tuple[bytes, Sequence[RowError]]:
        done = json_rows(rows, b"", b"")
        return joined(done.values.drop_null() if done.errors else done.values), done.errors


@frozen
class ParquetEncoding(Encoding):
    """Parquet, compressed inside."""

    packed: Packed = "none"
    suffix = ".parquet"
    packs = False

    def open(self, out: Any, schema: pa.Schema) -> Sheet:
        """Begin a file."""
        sink = pa.PythonFile(out, "w")
        # Here, since pipelines are declared and explained without it.
        import pyarrow.parquet as pq

        return _ParquetSheet(pq.ParquetWriter(sink, schema, compression=self.packed))


class _ParquetSheet(Sheet):
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, rows: pa.RecordBatch) -> Sequence[RowError]:
        self._writer.write_batch(rows)
        return ()

    def close(self) -> None:
        self._writer.close()


@frozen
class AvroEncoding(Encoding):
    """An Avro container file."""

    packed: Packed = "none"
    suffix = ".avro"
    packs = False

    def open(self, out: Any, schema: pa.Schema) -> Sheet:
        """Begin a file with the schema."""
        from penstock_localfile.engine.avrofile import AvroSheet

        return AvroSheet(out, schema, deflate=self.packed == "gzip")


def packing(out: Counting, packed: Packed) -> IO[bytes] | Counting:
    """A stream that compresses into a file; closing it leaves the file open."""
    if packed == "gzip":
        return gzip.GzipFile(fileobj=cast("IO[bytes]", out), mode="wb", compresslevel=6, mtime=0)
    if packed == "bzip2":
        return BZ2File(cast("IO[bytes]", out), "wb")
    if packed == "zstd":
        return cast("IO[bytes]", pa.CompressedOutputStream(pa.PythonFile(out, "w"), "zstd"))
    return out


def joined(values: pa.Array) -> bytes:
    """Values, each with a line end after it."""
    if len(values) == 0:
        return b""
    offsets = pa.array([0, len(values)], pa.int32())
    binary = values.cast(pa.binary())
    whole = pc.binary_join(pa.ListArray.from_arrays(offsets, binary), b"\n")
    return cast(bytes, whole[0].as_py()) + b"\n"


def is_bytes_like(kind: pa.DataType) -> bool:
    """Text or bytes."""
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
    )
    return any(test(kind) for test in tests)
