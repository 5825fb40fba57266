"""When Spark's own readers give the very rows that ours give, and what to ask them for.

Only where Spark is faster: Parquet, and lines or text whose place in the file nobody asks for
(Spark does not tell it). CSV and JSON are read faster here than there, and each has its own idea
of a number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.contracts.native import SparkRead, Stamped
from penstock_localfile.engine.formats.parquet import ParquetFormat
from penstock_localfile.engine.formats.plain import BOM, LinesFormat, TextLinesFormat
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.local import LocalStorage
from penstock_localfile.engine.parts import Part

MOST_FILES = 1_000
"""The driver looks into each file first; with more of them the tasks had better do it."""

_PLAIN = re.compile(r"(/[A-Za-z0-9._=,+@~-]+)+")
_STRICT = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}

_ALIKE: dict[pa.DataType, tuple[str, str]] = {
    pa.bool_(): ("BOOLEAN", "NONE"),
    pa.int8(): ("INT32", "INT"),
    pa.int16(): ("INT32", "INT"),
    pa.int32(): ("INT32", "NONE"),
    pa.int64(): ("INT64", "NONE"),
    pa.float32(): ("FLOAT", "NONE"),
    pa.float64(): ("DOUBLE", "NONE"),
    pa.string(): ("BYTE_ARRAY", "STRING"),
    pa.binary(): ("BYTE_ARRAY", "NONE"),
    pa.date32(): ("INT32", "DATE"),
    pa.timestamp("us", tz="UTC"): ("INT64", "TIMESTAMP"),
}
"""Columns that mean the same to Arrow and to Spark, as Parquet holds them."""


def in_spark(
    storage: LocalStorage, form: ParquetFormat | LinesFormat, parts: Sequence[Part]
) -> SparkRead | None:
    """What Spark should read in place of these parts; None if any of their files is in doubt."""
    files = _whole(storage, parts)
    if files is None:
        return None
    if isinstance(form, ParquetFormat):
        return _parquet(storage, form, files)
    if isinstance(form, TextLinesFormat):
        return _text(form, files)
    return _lines(form, files)


def _whole(storage: LocalStorage, parts: Sequence[Part]) -> dict[str, Logged] | None:
    """The files by their paths, if each is read to its end and is still as it was discovered."""
    taken: dict[str, int] = {}
    files: dict[str, Logged] = {}
    root = os.path.abspath(storage.root).rstrip("/")
    for piece in (piece for part in parts for piece in part.ranges):
        path = root + "/" + os.fsdecode(piece.file.entry.path)
        taken[path] = taken.get(path, 0) + piece.end - piece.start
        if files.setdefault(path, piece.file).version != piece.file.version:
            return None
    if not root or len(files) > MOST_FILES:
        return None
    for path, file in files.items():
        plain = _PLAIN.fullmatch(path) is not None and file.version == 1
        if not plain or taken[path] != file.entry.size:
            return None
        if storage.stat(file.entry.path) != file.entry:
            return None
    return files


def _parquet(
    storage: LocalStorage, form: ParquetFormat, files: Mapping[str, Logged]
) -> SparkRead | None:
    columns = form.columns()
    rows = 0
    for path in files:
        found = _rows_alike(path, columns)
        if found is None:
            return None
        rows += found
    root = os.path.abspath(storage.root).rstrip("/")
    return SparkRead(
        format="parquet",
        schema=columns,
        paths=tuple(files),
        columns={name: f"`{name}`" for name in columns.names},
        stamp=Stamped(
            origin=f"'{storage.origin}'",
            # The path may begin with file:/ or file:/// there.
            part="substring(_metadata.file_path, "
            f"instr(_metadata.file_path, '{root}/') + {len(root) + 1})",
            position="_metadata.row_index",
        ),
        options=_STRICT | {"datetimeRebaseMode": "CORRECTED", "mergeSchema": "false"},
        rows=rows,
    )


def _rows_alike(path: str, columns: pa.Schema) -> int | None:
    """How many rows a file has; None if Spark might see others in it than Arrow does."""
    try:
        with pq.ParquetFile(path) as file:
            facts, there, stored = file.metadata, file.schema_arrow, file.schema
            if any(key.startswith(b"org.apache.spark.legacy") for key in facts.metadata or {}):
                return None  # dates of another calendar
            if len({name.lower() for name in there.names}) != len(there.names):
                return None  # Spark does not tell them apart
            leaves = {leaf.path: leaf for leaf in map(stored.column, range(len(stored)))}
            for wanted in columns:
                at, leaf = there.get_field_index(wanted.name), leaves.get(wanted.name)
                if at < 0 or leaf is None or not there.field(at).type.equals(wanted.type):
                    return None
                if not _alike(wanted, leaf.physical_type, leaf.logical_type.type):
                    return None
            return int(facts.num_rows)
    except (pa.ArrowInvalid, OSError):
        return None  # our own reader says what is wrong


def _alike(column: pa.Field, physical: str, logical: str) -> bool:
    if any(sign in column.name for sign in "`.") or column.name == "_metadata":
        return False
    if pa.types.is_decimal128(column.type):
        return logical == "DECIMAL"
    return _ALIKE.get(column.type) == (physical, logical)


def _lines(form: LinesFormat, files: Mapping[str, Logged]) -> SparkRead | None:
    for path in files:
        if form.expanding.kind(os.fsencode(path)) or _codec(path):
            return None
        with open(path, "rb") as file:
            if file.read(len(BOM)) == BOM:
                return None  # Spark takes it away
    size = "octet_length(value) - CAST(endswith(value, '\\r') AS INT)"
    return _by_line(
        files,
        r"CASE WHEN endswith(value, '\r') THEN "
        "substring(CAST(value AS BINARY), 1, octet_length(value) - 1) "
        "ELSE CAST(value AS BINARY) END",
        _too_long(form, files, size, "BINARY"),
        {"lineSep": "\n"},
    )


def _text(form: TextLinesFormat, files: Mapping[str, Logged]) -> SparkRead | None:
    """Spark splits text as that format does, and takes a byte order mark away."""
    if any(form.expanding.kind(os.fsencode(path)) or _codec(path) for path in files):
        return None
    value = "`value`" if form.trusted else "try_validate_utf8(value)"
    return _by_line(files, value, _too_long(form, files, "octet_length(value)", "STRING"), {})


def _by_line(
    files: Mapping[str, Logged], value: str, too_long: str, options: Mapping[str, str]
) -> SparkRead:
    return SparkRead(
        format="text",
        schema=pa.schema([pa.field("value", pa.string())]),
        paths=tuple(files),
        columns={"value": f"CASE {too_long} ELSE {value} END" if too_long else value},
        options={**_STRICT, **options},
    )


def _too_long(form: LinesFormat, files: Mapping[str, Logged], size: str, kind: str) -> str:
    """The case of a line beyond the bound; none where no file is large enough to hold one."""
    if all(file.entry.size <= form.longest for file in files.values()):
        return ""
    said = f"a line is longer than {form.longest} bytes"
    return f"WHEN {size} > {form.longest} THEN CAST(raise_error('{said}') AS {kind})"


def _codec(path: str) -> bool:
    """Whether Spark might expand a file by its name."""
    ends = (".gz", ".bz2", ".zst", ".zstd", ".lz4", ".snappy", ".deflate", ".xz", ".lzo")
    return path.lower().endswith(ends)
