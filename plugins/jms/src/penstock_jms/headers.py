"""JMS headers and properties as envelope headers, both ways.

JMS's own headers keep their names (JMSCorrelationID, JMSType, ...). Two names are ours, with a
dot that no Java identifier has: `jms.body` is the kind of message if it is not bytes,
`jms.types` a JSON object with the types of properties that are not text. A property's name is a
Java identifier: dots and hyphens travel as `_DOT_` and `_HYPHEN_`; and a value that is no text
travels in base64, marked by `_BASE64_` at the end of the name.
"""

from __future__ import annotations

import base64
import binascii
import json

import numpy as np
import pyarrow as pa

from penstock.contracts.envelope import HEADER, HEADERS

BODY = "jms.body"
TYPES = "jms.types"
TYPE_NAMES = {
    "Boolean": "boolean",
    "Byte": "byte",
    "Short": "short",
    "Integer": "int",
    "Long": "long",
    "Float": "float",
    "Double": "double",
}
"""Java's classes of property values as `jms.types` names them."""

BINARY = "_BASE64_"
DUPLICATE_ID = "_AMQ_DUPL_ID"
"""Artemis's duplicate id belongs to one sending of a message: it is never read or passed on."""

_RESERVED = frozenset(
    ("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE")
)
"""Words of selectors: no property may have them as its name."""

_ESCAPES = ((".", "_DOT_"), ("-", "_HYPHEN_"))


def property_name(header: str) -> str | None:
    """The JMS property that carries a header; None if none can."""
    for sign, word in _ESCAPES:
        header = header.replace(sign, word)
    return header if header.isidentifier() and header not in _RESERVED else None


def header_name(name: str) -> str:
    """The header that a JMS property carries."""
    name = name.removesuffix(BINARY)
    for sign, word in _ESCAPES:
        name = name.replace(word, sign)
    return name


def from_base64(values: pa.Array) -> pa.Array:
    """The bytes that a property marked as binary holds; what is no base64 stays as it is."""

    def decoded(value: bytes | None) -> bytes | None:
        try:
            return None if value is None else base64.b64decode(value, validate=True)
        except binascii.Error:
            return value

    return pa.array([decoded(value) for value in values.to_pylist()], pa.binary())


def types_text(types: dict[str, str]) -> bytes:
    """The value of `jms.types`."""
    return json.dumps(types, separators=(",", ":")).encode()


class HeaderColumn:
    """Collects headers column by column, and gives them row by row."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._rows: list[np.ndarray] = []
        self._keys: list[pa.Array] = []
        self._values: list[pa.Array] = []

    def add(self, name: str, values: pa.Array, rows: np.ndarray | None = None) -> None:
        """A header for these rows (all if not said) where its value is not null."""
        at = np.arange(self._count) if rows is None else rows
        if values.null_count:
            there = np.asarray(values.is_valid())
            at, values = at[there], values.drop_null()
        if len(values):
            self._rows.append(at)
            self._keys.append(pa.repeat(pa.scalar(name, pa.string()), len(values)))
            self._values.append(values.cast(pa.binary()))

    def finish(self) -> pa.ListArray:
        """The column `headers` of an envelope."""
        if not self._rows:
            offsets = pa.array(np.zeros(self._count + 1, dtype=np.int32))
            return pa.ListArray.from_arrays(offsets, pa.array([], HEADER), type=HEADERS)
        rows = np.concatenate(self._rows)
        order = pa.array(np.argsort(rows, kind="stable"))
        counts = np.bincount(rows, minlength=self._count)
        offsets = np.zeros(self._count + 1, dtype=np.int32)
        np.cumsum(counts, out=offsets[1:])
        pairs = pa.StructArray.from_arrays(
            [pa.concat_arrays(self._keys).take(order), pa.concat_arrays(self._values).take(order)],
            fields=list(HEADER),
        )
        return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=HEADERS)
