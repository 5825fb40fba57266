"""Columns to JSON text, whole columns at a time."""

from __future__ import annotations

import base64
import json

import numpy as np
import pyarrow as pa

from penstock.coders.pieces import joined, list_parts, per_list, scattered
from penstock.contracts.coder import Encoded, RowError
from penstock.contracts.compute import pc

_NULL = b"null"
_ESCAPED = '["\\\\\\x00-\\x1f]'
_CONTROL = "[\\x00-\\x1f]"


def write_rows(rows: pa.RecordBatch, opening: bytes = b"", closing: bytes = b"") -> Encoded:
    """One JSON object per row; a number that JSON lacks (NaN, infinity) is that row's error."""
    pieces: list[pa.Array | bytes] = []
    bad = np.zeros(rows.num_rows, bool)
    for index, field in enumerate(rows.schema):
        text, wrong = _text(rows.column(index))
        name = json.dumps(field.name, ensure_ascii=False).encode()
        pieces += [(b"," if index else opening + b"{") + name + b":", text]
        if wrong is not None:
            bad |= wrong
    values = joined(*pieces, b"}" + closing) if pieces else pa.repeat(b"{}", rows.num_rows)
    if not bad.any():
        return Encoded(values)
    said = "a number is NaN or infinite, which JSON cannot say"
    errors = tuple(RowError(row=int(row), message=said) for row in np.flatnonzero(bad))
    return Encoded(pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), values), errors)


Bad = np.ndarray | None


def _text(array: pa.Array) -> tuple[pa.Array, Bad]:
    kind = array.type
    bad: Bad = None
    if pa.types.is_struct(kind):
        return _struct(array)
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list(array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = _quoted(array.cast(pa.string()))
    elif pa.types.is_floating(kind):
        array = array.cast(pa.float32() if pa.types.is_float16(kind) else kind)
        finite = pc.fill_null(pc.is_finite(array), True)
        if not pc.all(finite).as_py():
            bad = ~np.asarray(finite)
        text = array.cast(pa.string())
    elif pa.types.is_null(kind):
        text = pa.nulls(len(array), pa.string())
    elif pa.types.is_temporal(kind):
        plain = pc.replace_substring(array.cast(pa.string()), " ", "T", max_replacements=1)
        text = _quoted(plain, plain=True)
    elif (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    ):
        coded = [None if v is None else base64.b64encode(v).decode() for v in array.to_pylist()]
        text = _quoted(pa.array(coded, pa.string()), plain=True)
    else:
        text = array.cast(pa.string())
    return pc.fill_null(text.cast(pa.binary()), _NULL), bad


def _quoted(text: pa.Array, plain: bool = False) -> pa.Array:
    if not plain and pc.any(pc.match_substring_regex(text, _ESCAPED)).as_py():
        whole = text
        text = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
        control = pc.fill_null(pc.match_substring_regex(whole, _CONTROL), False)
        if pc.any(control).as_py():
            slow = [
                json.dumps(v, ensure_ascii=False)[1:-1] for v in whole.filter(control).to_pylist()
            ]
            text = pc.replace_with_mask(text, control, pa.array(slow, pa.string()))
    return joined(b'"', text.cast(pa.binary()), b'"')


def _struct(array: pa.Array) -> tuple[pa.Array, Bad]:
    bad: Bad = None
    pieces: list[pa.Array | bytes] = []
    for index, child in enumerate(array.flatten()):
        text, wrong = _text(child)
        name = json.dumps(array.type.field(index).name, ensure_ascii=False).encode()
        pieces += [(b"," if index else b"{") + name + b":", text]
        bad = wrong if bad is None else bad if wrong is None else bad | wrong
    text = joined(*pieces, b"}") if pieces else pa.repeat(b"{}", len(array))
    if array.null_count:
        text = pc.if_else(array.is_valid(), text, pa.scalar(_NULL, pa.binary()))
    return text, bad


def _list(array: pa.Array) -> tuple[pa.Array, Bad]:
    is_map = pa.types.is_map(array.type)
    offsets, items = list_parts(array)
    if is_map:
        value, wrong = _text(items.field("value"))
        text = joined(_key(items.field("key")), b":", value, b",")
    else:
        text, wrong = _text(items)
        text = joined(text, b",")
    opening, closing = (b"{", b"}") if is_map else (b"[", b"]")
    lists = joined(opening, per_list(text, offsets, trim=1), closing)
    bad: Bad = None
    if wrong is not None:
        count = np.concatenate([[0], np.cumsum(wrong)])
        bad = count[offsets[1:]] > count[offsets[:-1]]
    if array.null_count:
        valid = array.is_valid()
        lists = scattered(lists, valid, _NULL)
        if bad is not None:
            spread = np.zeros(len(array), bool)
            spread[np.asarray(valid)] = bad
            bad = spread
    return lists, bad


def _key(keys: pa.Array) -> pa.Array:
    if pa.types.is_string(keys.type):
        return _quoted(keys)
    return _quoted(keys.cast(pa.string()), plain=True)
