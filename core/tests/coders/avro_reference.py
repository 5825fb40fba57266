"""Avro through fastavro: what the fast path is held to, and the way for a few odd records."""

from __future__ import annotations

import io
import uuid
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.validation import validate

from penstock.coders.avro.types import (
    Array,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    arrow,
    columns,
    members,
)
from penstock.contracts.errors import CodecError

_BROKEN = (EOFError, ValueError, TypeError, IndexError, KeyError, OverflowError, StopIteration)


def decode(values: list[bytes], writer: Any, reader: Any, node: Node) -> pa.RecordBatch:
    """Records as columns, one by one.

    Args:
        values: Records without any framing.
        writer: The parsed schema (of fastavro) they were written with.
        reader: The one to read them with.
        node: The reader's schema as ours.

    Raises:
        CodecError: one of them is bad.
    """
    return batch([_read(value, writer, reader) for value in values], reader, node)


def batch(objects: list[Any], reader: Any, node: Node) -> pa.RecordBatch:
    """Objects as fastavro gives or takes them (a tuple names a union's branch) as columns."""
    schema = columns(node)
    if not isinstance(node, Record):
        shaped = [_shaped(each, node, reader) for each in objects]
        return pa.RecordBatch.from_arrays([pa.array(shaped, schema.field(0).type)], schema=schema)
    rows = [_shaped(each, node, reader) for each in objects]
    arrays = [pa.array([row[f.name] for row in rows], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _read(value: bytes, writer: Any, reader: Any) -> Any:
    stream = io.BytesIO(value)
    try:
        found = fastavro.schemaless_reader(stream, writer, reader)
    except _BROKEN as error:
        raise CodecError(f"it is no such Avro record ({type(error).__name__})") from None
    if stream.tell() != len(value):
        raise CodecError("bytes are left over after the record")
    return found


def _shaped(value: Any, node: Node, spec: Any) -> Any:
    """A value of fastavro's as `pa.array` takes it."""
    if value is None:
        return None
    if isinstance(node, Union):
        return _member(value, node, spec)
    if isinstance(node, Record):
        specs = {f["name"]: f["type"] for f in spec["fields"]}
        return {f.name: _shaped(value[f.name], f.type, specs[f.name]) for f in node.fields}
    if isinstance(node, Array):
        return [_shaped(each, node.items, spec["items"]) for each in value]
    if isinstance(node, Map):
        return [(k, _shaped(v, node.values, spec["values"])) for k, v in value.items()]
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(node, Primitive | Fixed) and (node.logical or "").endswith("nanos"):
        return pa.scalar(value // 1000, pa.int64()).cast(arrow(node))
    return value


def _member(value: Any, node: Union, spec: Any) -> Any:
    kept = members(node)
    specs = [each for each in spec if each != "null"]
    if len(kept) == 1:
        return _shaped(value, kept[0], specs[0])
    for number, (branch, branch_spec) in enumerate(zip(kept, specs, strict=True)):
        if isinstance(value, tuple):
            named = branch_spec if isinstance(branch_spec, str) else branch_spec["name"]
            if named == value[0]:
                return {f"member{number}": _shaped(value[1], branch, branch_spec)}
        elif validate(value, branch_spec, raise_errors=False):
            return {f"member{number}": _shaped(value, branch, branch_spec)}
    raise CodecError("a value fits no branch of its union")
