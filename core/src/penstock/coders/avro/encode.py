"""Columns to Avro records: each field of all records at once."""

from __future__ import annotations

import uuid

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.coders.avro.types import (
    NULL,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    arrow,
    members,
)
from penstock.coders.cursors import Ints
from penstock.coders.numbers import to_words
from penstock.coders.parts import bytes_of
from penstock.coders.pieces import joined, list_parts, per_list, scattered
from penstock.coders.writing import big_endian, fixed_width, signed_varints, varints
from penstock.contracts.coder import Encoded, RowError
from penstock.contracts.errors import SchemaError

Pieces = list[pa.Array | bytes]
_END = b"\x00"
_NANOS = (2**63 - 1) // 1000


def encode(rows: pa.RecordBatch, node: Node, prefix: bytes = b"") -> Encoded:
    """One record per row, behind the prefix."""
    writing = _Writing()
    owners = np.arange(rows.num_rows)
    pieces: Pieces = [prefix]
    if isinstance(node, Record):
        for field in node.fields:
            pieces += writing.pieces(field.type, rows.column(field.name), owners, field.name)
    else:
        pieces += writing.pieces(node, rows.column(0), owners, "value")
    values = _one(pieces, rows.num_rows)
    if not writing.faults:
        return Encoded(values)
    bad = np.zeros(rows.num_rows, bool)
    bad[list(writing.faults)] = True
    errors = [RowError(row=row, message=said) for row, said in sorted(writing.faults.items())]
    return Encoded(pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), values), tuple(errors))


class _Writing:
    """One batch under way: `owners` says for each value of a column which row it belongs to."""

    def __init__(self) -> None:
        self.faults: dict[int, str] = {}

    def blame(self, owners: Ints, wrong: npt.NDArray[np.bool_], said: str) -> None:
        for row in owners[wrong].tolist():
            self.faults.setdefault(row, said)

    def pieces(self, node: Node, array: pa.Array, owners: Ints, path: str) -> Pieces:
        if isinstance(node, Union):
            return self.union(node, array, owners, path)
        if array.null_count and node != NULL:
            missing = np.asarray(array.is_null())
            self.blame(owners, missing, f"{path} is null, which its Avro type does not allow")
            kept = array.filter(array.is_valid())
            inner = self.pieces(node, kept, owners[~missing], path)
            return [scattered(_one(inner, len(kept)), array.is_valid(), b"")]
        if isinstance(node, Record):
            found: Pieces = []
            for field, child in zip(node.fields, array.flatten(), strict=True):
                found += self.pieces(field.type, child, owners, f"{path}.{field.name}")
            return found
        if isinstance(node, Array | Map):
            return self.items(node, array, owners, path)
        if isinstance(node, Enum):
            index = pc.index_in(array, pa.array(node.symbols, pa.string()))
            unknown = np.asarray(index.is_null())
            if unknown.any():
                self.blame(owners, unknown, f"{path} is no symbol of {node.name}")
            return [signed_varints(np.asarray(pc.fill_null(index, 0)).astype(np.int64))]
        if isinstance(node, Fixed):
            return [self.fixed(node, array, owners, path)]
        return self.primitive(node, array, owners, path)

    def primitive(self, node: Primitive, array: pa.Array, owners: Ints, path: str) -> Pieces:
        kind = node.kind
        if kind == "null":
            return [b""]
        if kind in ("int", "long"):
            numbers = _whole(node, array)
            if (node.logical or "").endswith("nanos"):
                far = np.abs(numbers) > _NANOS
                self.blame(owners, far, f"{path} is too far from 1970 to be counted in nanoseconds")
                numbers = np.where(far, 0, numbers) * 1000
            return [signed_varints(numbers)]
        if kind == "boolean":
            return [fixed_width(np.asarray(array.cast(pa.uint8())))]
        if kind in ("float", "double"):
            return [fixed_width(np.asarray(array))]
        if node.logical == "decimal":
            low, high = to_words(array)
            raw = big_endian(low, high)
        else:
            raw = array.cast(pa.binary())
        sizes = np.asarray(pc.binary_length(raw)).astype(np.int64)
        return [signed_varints(sizes), raw]

    def fixed(self, node: Fixed, array: pa.Array, owners: Ints, path: str) -> pa.Array:
        if node.logical == "decimal":
            low, high = to_words(array)
            raw = big_endian(low, high, node.size)
        elif node.logical == "uuid":
            raw = pa.array([_uuid(text) for text in array.to_pylist()], pa.binary())
        else:
            raw = array
        wrong = np.asarray(pc.not_equal(pc.binary_length(raw), node.size))
        if wrong.any():
            self.blame(owners, wrong, f"{path} does not fit the {node.size} bytes of {node.name}")
        return raw

    def items(self, node: Array | Map, array: pa.Array, owners: Ints, path: str) -> Pieces:
        offsets, items = list_parts(array)
        counts = np.diff(offsets).astype(np.int64)
        inner = np.repeat(owners, counts)
        if isinstance(node, Map):
            pieces = self.pieces(Primitive("string"), items.field("key"), inner, f"{path} key")
            pieces += self.pieces(node.values, items.field("value"), inner, f"{path}[]")
        else:
            pieces = self.pieces(node.items, items, inner, f"{path}[]")
        heads = varints((counts * 2).astype(np.uint64), empty_zero=True)
        return [heads, per_list(_one(pieces, len(items)), offsets), _END]

    def union(self, node: Union, array: pa.Array, owners: Ints, path: str) -> Pieces:
        kept = members(node)
        numbers = [i for i, branch in enumerate(node.branches) if branch != NULL]
        valid = np.asarray(array.is_valid())
        if len(kept) <= 1:
            chosen = np.where(valid, 0, -1)
            columns = [array]
        else:
            columns = array.flatten()
            given = np.stack([np.asarray(column.is_valid()) for column in columns])
            chosen = np.where(given.any(0), given.argmax(0), -1)
            wrong = given.sum(0) > 1
            if wrong.any():
                self.blame(owners, wrong, f"{path} has more than one member of its union set")
        null = node.branches.index(NULL) if NULL in node.branches else None
        if null is None and (chosen < 0).any():
            self.blame(owners, chosen < 0, f"{path} is null, which its Avro type does not allow")
        if len(kept) == 1 and (chosen == 0).all():
            return [_head(numbers[0]), *self.pieces(kept[0], array, owners, path)]
        return [self.mixed(kept, numbers, columns, chosen, null, owners, path)]

    def mixed(
        self,
        kept: tuple[Node, ...],
        numbers: list[int],
        columns: list[pa.Array],
        chosen: Ints,
        null: int | None,
        owners: Ints,
        path: str,
    ) -> pa.Array:
        parts = [pa.array([_head(null or 0)], pa.binary())]
        index = np.zeros(len(chosen), np.int64)
        base = 1
        for member, branch in enumerate(kept):
            which = np.flatnonzero(chosen == member)
            if len(which):
                part = columns[member].take(pa.array(which))
                inner = self.pieces(branch, part, owners[which], path)
                parts.append(_one([_head(numbers[member]), *inner], len(which)))
                index[which] = np.arange(base, base + len(which))
                base += len(which)
        return pa.concat_arrays(parts).take(pa.array(index))


def _one(pieces: Pieces, count: int) -> pa.Array:
    whole = [each for each in pieces if not (isinstance(each, bytes) and not each)]
    if any(isinstance(each, pa.Array) for each in whole):
        return joined(*whole)
    constant = b"".join(each for each in whole if isinstance(each, bytes))
    return pa.repeat(pa.scalar(constant, pa.binary()), count)


def _head(branch: int) -> bytes:
    return bytes_of(signed_varints(np.array([branch])))[0].tobytes()


def _whole(node: Primitive, array: pa.Array) -> Ints:
    if pa.types.is_date32(array.type):
        return np.asarray(array.view(pa.int32())).astype(np.int64)
    if pa.types.is_temporal(array.type):
        numbers = np.asarray(array.view(pa.int64()))
        return numbers // 1000 if (node.logical or "").endswith("millis") else numbers
    return np.asarray(array).astype(np.int64)


def _uuid(text: str) -> bytes:
    try:
        return uuid.UUID(text).bytes
    except ValueError:
        return b""


def node_of(kind: pa.DataType, name: str) -> Node:
    """An Avro type that holds every value of an Arrow type, null included.

    Raises:
        SchemaError: there is none.
    """
    return Union((NULL, _node_of(kind, name)))


def record_of(schema: pa.Schema, name: str = "row") -> Record:
    """An Avro record for rows of a schema; each field may be null and is so by default."""
    fields = [Field(f.name, node_of(f.type, f"{name}_{f.name}"), True) for f in schema]
    return Record(name, tuple(fields))


def _node_of(kind: pa.DataType, name: str) -> Node:
    for primitive in ("boolean", "int", "long", "float", "double", "bytes", "string"):
        if arrow(Primitive(primitive)) == kind:
            return Primitive(primitive)
    if pa.types.is_integer(kind) and kind.bit_width < 32:
        return Primitive("int")
    if pa.types.is_date32(kind):
        return Primitive("int", "date")
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return Primitive("long", "timestamp-micros" if kind.tz else "local-timestamp-micros")
    if pa.types.is_time64(kind) and kind.unit == "us":
        return Primitive("long", "time-micros")
    if pa.types.is_decimal128(kind):
        return Primitive("bytes", "decimal", kind.precision, kind.scale)
    if pa.types.is_list(kind):
        return Array(node_of(kind.value_type, f"{name}_item"))
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return Map(node_of(kind.item_type, f"{name}_value"))
    if pa.types.is_struct(kind):
        return record_of(pa.schema(list(kind)), name)
    raise SchemaError(
        "Avro has no type for the column", expected="a type of the mapping table", got=str(kind)
    )
