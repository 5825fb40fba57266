"""Which folder and which name a row's file has."""

from __future__ import annotations

import string
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen

from penstock.contracts.compute import pc
from penstock.contracts.errors import OptionError, SchemaError

_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = set("\"#%'*/:=?\\\x7f{[]^\n\r\t") | {chr(i) for i in range(32)}
_NAMES = ("batch", "partition", "roll", "id", "query", "node")


@frozen
class Layout:
    """Folders by column values (`country=de/`), and by a hash of columns (`bucket=00003/`).

    Attributes:
        partition_by: These columns name folders, and are left out of the files.
        bucket_by: These columns are hashed.
        buckets: Into so many folders.
    """

    partition_by: tuple[str, ...] = ()
    bucket_by: tuple[str, ...] = ()
    buckets: int = 0

    def kept(self, schema: pa.Schema) -> pa.Schema:
        """The columns that go into files.

        Raises:
            SchemaError: a column to go by is missing, or none is left.
        """
        for name in (*self.partition_by, *self.bucket_by):
            if schema.get_field_index(name) < 0:
                raise SchemaError(
                    f"there is no column {name} to go by",
                    expected=", ".join(schema.names),
                    got=name,
                )
        left = [f for f in schema if f.name not in self.partition_by]
        if not left:
            raise SchemaError("every column names a folder, and none is left to write")
        return pa.schema(left)

    def folders(
        self, rows: pa.RecordBatch
    ) -> Iterator[tuple[str, pa.RecordBatch, pa.BooleanArray | None]]:
        """What each folder gets, and which rows that are (None: all); by first appearance."""
        keys = [_texts(rows.column(name)) for name in self.partition_by]
        if self.bucket_by:
            keys.append(self._bucket(rows))
        if not keys:
            yield "", rows, None
            return
        names = [*self.partition_by, *(["bucket"] if self.bucket_by else [])]
        body = rows.select([n for n in rows.schema.names if n not in self.partition_by])
        groups = _grouped(keys)
        for first in groups.unique().to_pylist():
            values = [key[first].as_py() for key in keys]
            parts = zip(names, values, strict=True)
            folder = "/".join(f"{_escaped(name)}={_escaped(value)}" for name, value in parts)
            chosen = pc.equal(groups, first)
            yield folder + "/", body.filter(chosen), chosen

    def _bucket(self, rows: pa.RecordBatch) -> pa.Array:
        marked = [pc.fill_null(_texts(rows.column(name)), "\0") for name in self.bucket_by]
        together = pc.binary_join_element_wise(*marked, "\1").dictionary_encode()
        numbers = [
            f"{zlib.crc32(value.encode()) % self.buckets:05d}"
            for value in together.dictionary.to_pylist()
        ]
        return pa.array(numbers, pa.string()).take(together.indices)


def _grouped(keys: Sequence[pa.Array]) -> pa.Array:
    """Of each row the first row with the same keys; they are compared, never joined as text."""
    import numpy as np

    same = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        own = key.dictionary_encode(null_encoding="encode").indices.to_numpy()
        both = same * (int(own.max(initial=0)) + 1) + own
        _, first, same = np.unique(both, return_index=True, return_inverse=True)
    return pa.array(first[same])


def _texts(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"a column of this type cannot name folders: {error}", got=str(column.type)
        ) from error


def _escaped(value: str | None) -> str:
    if not value:
        return _NULL
    if value in (".", ".."):
        return value.replace(".", "%2E")
    return "".join("".join(f"%{b:02X}" for b in c.encode()) if c in _ESCAPED else c for c in value)


def check_template(template: str, names: tuple[str, ...] = _NAMES) -> str | None:
    """What is wrong with a name template, in words that follow the option's name."""
    try:
        used = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
    except ValueError as error:
        return f"cannot be read: {error}"
    strange = used - set(names)
    if strange:
        return f"must use only {', '.join('{' + n + '}' for n in names)}"
    return None


def stays_below(template: str) -> bool:
    """Whether a template leads nowhere else by itself; what fills it is looked at row by row."""
    parsed = string.Formatter().parse(template)
    names = "".join(plain if fact is None else f"{plain}x" for plain, fact, _, _ in parsed)
    return not names.startswith("/") and ".." not in names.split("/") and "\0" not in names


def filled(template: str, **facts: Any) -> str:
    """A template with its facts; only plain formats, never attributes of objects.

    Raises:
        OptionError: a format does not fit its fact.
    """
    try:
        return template.format(**facts)
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        raise OptionError(f"the name template cannot be filled: {error}", got=template) from None
