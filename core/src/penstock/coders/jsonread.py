"""JSON text to columns, a whole batch in one parse."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from penstock.coders.isolate import Suspect
from penstock.coders.pieces import joined
from penstock.contracts.compute import pc
from penstock.contracts.errors import CodecError

_ROW = re.compile(r"in row (\d+)")
_ZONE = r"(?:[Zz]|[+-]\d\d:?\d\d)$"
_SYNTAX = re.compile(r"JSON parse error: (?!Column)([^\n]*?)(?: in row \d+)?$")
_CHANGED = re.compile(r"Column\(([^)]*)\) changed from (\w+) to (\w+)")
_TWICE = re.compile(r"Column\(([^)]*)\) was specified twice")


def wire(kind: pa.DataType) -> pa.DataType:
    """The type JSON itself has for a column: text for dates, times and bytes."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", wire(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, wire(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), wire(kind.item_type))
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.string()
    return kind


def read_objects(values: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    """Columns of values that each begin with `{` and end with `}`, one row each.

    With those two characters checked, no document can span two values: what is unfinished at a
    closing brace cannot go on with an opening one. So as many rows as values means one each.

    Raises:
        pa.ArrowInvalid: some value is bad; a `Suspect` says which one looks so.
    """
    text = joined(values, b"\n")
    return read_text(text.buffers()[2].slice(0, _size(text)), schema, len(values))


def read_text(text: pa.Buffer, schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Columns of so many lines that each begin with `{` and end with `}`, one row each.

    Raises:
        pa.ArrowInvalid, CodecError: some line is bad.
    """
    table = _parsed(text, wire_schema(schema))
    if table.num_rows != count:
        raise CodecError("there is more than one JSON document")
    columns = []
    for field in schema:
        array = table.column(field.name).combine_chunks()
        _check_range(array)
        columns.append(settle(array, field.type) if table.num_rows else pa.array([], field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_range(array: pa.Array) -> None:
    """The parser makes infinity of a number that a FLOAT cannot hold, and says nothing."""
    if pa.types.is_float32(array.type):
        if pc.any(pc.is_inf(array)).as_py():
            raise pa.ArrowInvalid("a number is out of the range of a float")
    elif pa.types.is_struct(array.type):
        for child in array.flatten():
            _check_range(child)
    elif pa.types.is_list(array.type):
        _check_range(array.flatten())


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """The columns to ask the parser for."""
    return pa.schema([pa.field(f.name, wire(f.type)) for f in schema])


def _size(array: pa.Array) -> int:
    return int(np.frombuffer(array.buffers()[1], np.int32)[len(array)])


def _parsed(text: pa.Buffer, schema: pa.Schema) -> pa.Table:
    try:
        return pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=schema,
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
    except pa.ArrowInvalid as error:
        row = _ROW.search(str(error))
        if row is not None:
            raise Suspect(said(error), int(row.group(1))) from None
        raise


def said(error: BaseException) -> str:
    """What is wrong, without the payload that the parser's own message may repeat."""
    if isinstance(error, CodecError):
        return error.message
    text = str(error)
    if found := _CHANGED.search(text):
        return f"the field {found[1] or '/'} holds a JSON {found[3]}, not a {found[2]}"
    if found := _TWICE.search(text):
        return f"the field {found[1]} comes twice"
    if found := _SYNTAX.search(text):
        return f"it is not valid JSON: {found[1].rstrip('.')}"
    return "a value does not fit its column's type"


def settle(array: pa.Array, want: pa.DataType) -> pa.Array:
    """An array of wire types as the column's own type.

    Raises:
        pa.ArrowInvalid: a text that is no such value.
    """
    have = array.type
    if have.equals(want):
        return array
    if pa.types.is_struct(want):
        pairs = zip(array.flatten(), want, strict=True)
        children = [settle(child, field.type) for child, field in pairs]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(want), mask=mask)
    if pa.types.is_map(want):
        keys = settle(array.keys, want.key_type)
        items = settle(array.items, want.item_type)
        mask = array.is_null() if array.null_count else None
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=want, mask=mask)
    if pa.types.is_list(want):
        mask = array.is_null() if array.null_count else None
        items = settle(array.values, want.value_type)
        return pa.ListArray.from_arrays(array.offsets, items, type=want, mask=mask)
    if pa.types.is_string(have):
        return from_text(array, want)
    return array.cast(want)


def from_text(array: pa.Array, want: pa.DataType) -> pa.Array:
    """Values read from their text: ISO 8601 for times, base64 for bytes."""
    if pa.types.is_timestamp(want):
        return instants(array, want)
    if pa.types.is_binary(want) or pa.types.is_fixed_size_binary(want):
        decoded = [None if text is None else _bytes(text) for text in array.to_pylist()]
        return pa.array(decoded, want)
    if pa.types.is_time(want):
        day = pc.binary_join_element_wise("1970-01-01T", array, "")
        return day.cast(pa.timestamp(want.unit)).cast(want)
    return array.cast(want)


def instants(array: pa.Array, want: pa.DataType) -> pa.Array:
    """Timestamps from ISO 8601 text; without a zone in the text it is UTC."""
    naive = pa.timestamp(want.unit)
    zoned = pa.timestamp(want.unit, "UTC")
    has_zone = pc.fill_null(pc.match_substring_regex(array, _ZONE), False)
    if not pc.any(has_zone).as_py():
        return array.cast(naive).cast(zoned).cast(want)
    if pc.all(pc.or_(has_zone, array.is_null())).as_py():
        return array.cast(zoned).cast(want)
    nothing = pa.scalar(None, pa.string())
    without = pc.if_else(has_zone, nothing, array).cast(naive).cast(zoned)
    return pc.coalesce(pc.if_else(has_zone, array, nothing).cast(zoned), without).cast(want)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise pa.ArrowInvalid("the text is not base64") from None


def infer(values: list[bytes]) -> pa.Schema:
    """The schema that a sample of JSON objects has; more rows, better types."""
    text = b"\n".join(values)
    options = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
    parse: Any = pj.ParseOptions(newlines_in_values=True)
    return pj.read_json(pa.BufferReader(text), read_options=options, parse_options=parse).schema
