"""Columns to CSV records, whole columns at a time."""

from __future__ import annotations

import base64
import re

import pyarrow as pa

from penstock.coders.pieces import joined
from penstock.contracts.compute import pc


def write_rows(rows: pa.RecordBatch, delimiter: str, quote: str, null: str) -> pa.Array:
    """One CSV record per row, without a line end."""
    pieces: list[pa.Array | bytes] = []
    for index in range(rows.num_columns):
        pieces += [delimiter.encode()] if index else []
        pieces.append(_field(rows.column(index), delimiter, quote, null))
    return joined(*pieces)


def _field(array: pa.Array, delimiter: str, quote: str, null: str) -> pa.Array:
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        coded = [None if v is None else base64.b64encode(v).decode() for v in array.to_pylist()]
        text = pa.array(coded, pa.string())
    else:
        text = array.cast(pa.string())
    marks = re.escape(delimiter + quote) + r"\r\n"
    special = pc.match_substring_regex(text, f"[{marks}]")
    special = pc.or_(special, pc.or_(pc.equal(text, null), pc.equal(text, "")))
    if pc.any(special).as_py():
        escaped = pc.replace_substring(text, quote, quote * 2).cast(pa.binary())
        wrapped = joined(quote.encode(), escaped, quote.encode())
        out = pc.if_else(special, wrapped, text.cast(pa.binary()))
    else:
        out = text.cast(pa.binary())
    return pc.fill_null(out, null.encode())
