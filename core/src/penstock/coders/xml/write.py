"""Columns to XML documents, whole columns at a time."""

from __future__ import annotations

import base64

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.coders.pieces import joined, list_parts, per_list, scattered
from penstock.coders.xml.columns import VALUE
from penstock.contracts.coder import Encoded, RowError

_FORBIDDEN = "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\ufffe\uffff]"
_ESCAPES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("\r", "&#13;"))
_IN_ATTRIBUTES = (("\n", "&#10;"), ("\t", "&#9;"))


def write_rows(rows: pa.RecordBatch, element: str) -> Encoded:
    """One document per row; a text with a character XML lacks is that row's error."""
    writing = _Writing(rows.num_rows)
    fields = list(rows.schema)
    values = writing.element(element, fields, rows.columns, np.arange(rows.num_rows))
    if not writing.bad.any():
        return Encoded(values)
    said = "a text has a character that XML cannot hold"
    errors = tuple(RowError(int(row), said) for row in np.flatnonzero(writing.bad))
    return Encoded(pc.if_else(pa.array(writing.bad), pa.scalar(None, pa.binary()), values), errors)


class _Writing:
    def __init__(self, count: int) -> None:
        self.bad = np.zeros(count, bool)

    def element(
        self,
        name: str,
        fields: list[pa.Field],
        columns: list[pa.Array],
        owners: npt.NDArray[np.intp],
    ) -> pa.Array:
        """An element for each row, none of them null."""
        head: list[pa.Array | bytes] = [f"<{name}".encode()]
        body: list[pa.Array | bytes] = [b">"]
        for field, array in zip(fields, columns, strict=True):
            if field.name == VALUE:
                body.append(pc.fill_null(self.text(array, owners), b""))
            elif field.name.startswith("_"):
                text = self.text(array, owners, attribute=True)
                whole = joined(f' {field.name[1:]}="'.encode(), text, b'"')
                head.append(pc.fill_null(whole, b""))
            else:
                body.append(self.child(field.name, array, owners))
        return joined(*head, *body, f"</{name}>".encode())

    def child(self, name: str, array: pa.Array, owners: npt.NDArray[np.intp]) -> pa.Array:
        """The elements of one name in each row; a null gives none."""
        kind = array.type
        if pa.types.is_list(kind):
            offsets, items = list_parts(array)
            valid = np.asarray(array.is_valid())
            inner = np.repeat(owners[valid], np.diff(offsets))
            if items.null_count:
                marked = self.child(name, items, inner)
                nil = f'<{name} xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
                empty = f'{nil} xsi:nil="true"/>'.encode()
                items = pc.if_else(items.is_valid(), marked, pa.scalar(empty, pa.binary()))
            else:
                items = self.child(name, items, inner)
            lists = per_list(items, offsets)
            return scattered(lists, array.is_valid(), b"") if array.null_count else lists
        valid = array.is_valid()
        kept = array.filter(valid) if array.null_count else array
        owners = owners[np.asarray(valid)] if array.null_count else owners
        if pa.types.is_struct(kind):
            done = self.element(name, list(kind), kept.flatten(), owners)
        else:
            done = joined(f"<{name}>".encode(), self.text(kept, owners), f"</{name}>".encode())
        return scattered(done, valid, b"") if array.null_count else done

    def text(
        self, array: pa.Array, owners: npt.NDArray[np.intp], attribute: bool = False
    ) -> pa.Array:
        kind = array.type
        if pa.types.is_binary(kind):
            coded = [None if v is None else base64.b64encode(v) for v in array.to_pylist()]
            return pa.array(coded, pa.binary())
        if pa.types.is_temporal(kind):
            plain = pc.replace_substring(array.cast(pa.string()), " ", "T", max_replacements=1)
            return plain.cast(pa.binary())
        text = array.cast(pa.string())
        if pa.types.is_string(kind):
            wrong = pc.fill_null(pc.match_substring_regex(text, _FORBIDDEN), False)
            if pc.any(wrong).as_py():
                self.bad[owners[np.asarray(wrong)]] = True
            for mark, escape in (*_ESCAPES, *(_IN_ATTRIBUTES if attribute else ())):
                text = pc.replace_substring(text, mark, escape)
        return text.cast(pa.binary())
