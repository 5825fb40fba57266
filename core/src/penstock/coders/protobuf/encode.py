"""Columns to Protobuf messages: each field of all messages at once."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.coders.cursors import Ints
from penstock.coders.numbers import to_words
from penstock.coders.pieces import joined, list_parts, per_list, scattered
from penstock.coders.protobuf.types import WIRE, Field, Message
from penstock.coders.writing import fixed_width, signed_varints, varints
from penstock.contracts.coder import Encoded, RowError


def encode(rows: pa.RecordBatch, message: Message, prefix: bytes = b"") -> Encoded:
    """One message per row, behind the prefix; fields in the order of their numbers."""
    writing = _Writing()
    values = writing.message(message, rows.columns, np.arange(rows.num_rows), "")
    whole = joined(prefix, values) if prefix else values
    if not writing.faults:
        return Encoded(whole)
    bad = np.zeros(rows.num_rows, bool)
    bad[list(writing.faults)] = True
    errors = [RowError(row=row, message=said) for row, said in sorted(writing.faults.items())]
    return Encoded(pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), whole), tuple(errors))


class _Writing:
    """One batch under way: `owners` says for each value which row it belongs to."""

    def __init__(self) -> None:
        self.faults: dict[int, str] = {}

    def blame(self, owners: Ints, wrong: npt.NDArray[np.bool_], said: str) -> None:
        for row in owners[wrong].tolist():
            self.faults.setdefault(row, said)

    def message(
        self, message: Message, columns: list[pa.Array], owners: Ints, path: str
    ) -> pa.Array:
        for group in message.oneofs:
            members = zip(message.fields, columns, strict=True)
            given = [np.asarray(a.is_valid()) for f, a in members if f.number in group]
            names = " and ".join(path + f.name for f in message.fields if f.number in group)
            self.blame(owners, np.sum(given, 0) > 1, f"of {names} only one can be set")
        pairs = zip(message.fields, columns, strict=True)
        pieces = [
            self.field(f, array, owners, f"{path}{f.name}")
            for f, array in sorted(pairs, key=lambda pair: pair[0].number)
        ]
        if not pieces:
            return pa.repeat(pa.scalar(b"", pa.binary()), len(owners))
        return joined(*pieces)

    def field(self, f: Field, array: pa.Array, owners: Ints, path: str) -> pa.Array:
        """The field with its tag for each message; nothing where it is absent."""
        if f.shape != "one":
            return self.many(f, array, owners, path)
        written = array.is_valid()
        if not f.presence and f.message is None:
            written = pc.and_(written, pc.invert(pc.fill_null(_is_default(f, array), False)))
        which = np.flatnonzero(np.asarray(written))
        if len(which) == len(array):
            return self.tagged(f, array, owners, path)
        done = self.tagged(f, array.take(pa.array(which)), owners[which], path)
        return scattered(done, written, b"")

    def many(self, f: Field, array: pa.Array, owners: Ints, path: str) -> pa.Array:
        offsets, items = list_parts(array)
        valid = array.is_valid()
        counts = np.diff(offsets)
        inner = np.repeat(owners[np.asarray(valid)], counts)
        if items.null_count:
            missing = np.asarray(items.is_null())
            self.blame(inner, missing, f"{path} holds a null, which Protobuf lists cannot")
            items = pc.fill_null(items, _zero(f)) if f.message is None else items
        if f.packed:
            lists = per_list(self.plain(f, items, inner, path), offsets)
            sizes = np.asarray(pc.binary_length(lists)).astype(np.uint64)
            whole = joined(_tag(f, 2), varints(sizes), lists)
            lists = pc.if_else(pa.array(sizes > 0), whole, pa.scalar(b"", pa.binary()))
        else:
            lists = per_list(self.tagged(f, items, inner, path), offsets)
        return scattered(lists, valid, b"") if array.null_count else lists

    def tagged(self, f: Field, array: pa.Array, owners: Ints, path: str) -> pa.Array:
        value = self.plain(f, array, owners, path)
        tag = _tag(f, WIRE[f.wire])
        if f.wire in ("bytes", "message"):
            sizes = np.asarray(pc.binary_length(value)).astype(np.uint64)
            return joined(tag, varints(sizes), value)
        return joined(tag, value)

    def plain(self, f: Field, array: pa.Array, owners: Ints, path: str) -> pa.Array:
        """Values without tags; none of them is null."""
        if f.message is not None:
            if f.stamp:
                return self.message(f.message, _stamp(array), owners, f"{path}.")
            return self.message(f.message, array.flatten(), owners, f"{path}.")
        if f.wire == "bytes":
            return array.cast(pa.binary())
        if f.symbols:
            return varints(self.symbols(f, array, owners, path).view(np.uint64))
        if pa.types.is_decimal(f.type):
            low, high = to_words(array)
            self.blame(owners, high != 0, f"{path} is out of the range of 64 bits without sign")
            return fixed_width(low) if f.wire == "fixed64" else varints(low.view(np.uint64))
        if pa.types.is_boolean(f.type):
            return fixed_width(np.asarray(array.cast(pa.uint8())))
        numbers = np.asarray(array)
        if f.kind in (7, 13):
            wide = (numbers < 0) | (numbers >= 2**32)
            self.blame(owners, wide, f"{path} is out of the range of 32 bits without sign")
            numbers = np.where(wide, 0, numbers)
        if f.wire == "fixed32" and not pa.types.is_floating(f.type):
            return fixed_width(numbers.astype(np.uint32 if f.kind == 7 else np.int32))
        if f.wire in ("fixed32", "fixed64"):
            return fixed_width(numbers)
        whole = numbers.astype(np.int64)
        return signed_varints(whole) if f.wire == "zigzag" else varints(whole.view(np.uint64))

    def symbols(self, f: Field, array: pa.Array, owners: Ints, path: str) -> Ints:
        names = pa.array([name for _, name in f.symbols], pa.string())
        numbers = np.array([number for number, _ in f.symbols], np.int64)
        place = pc.index_in(array, names)
        unknown = np.asarray(place.is_null())
        found: Ints = numbers[np.asarray(pc.fill_null(place, 0))]
        for index in np.flatnonzero(unknown).tolist():
            # A number without a name is read as its digits, and written from them.
            text = array[index].as_py()
            if re.fullmatch(r"-?\d{1,10}", text, re.ASCII) and -(2**31) <= int(text) < 2**31:
                found[index], unknown[index] = int(text), False
        if unknown.any():
            self.blame(owners, unknown, f"{path} is no name of its enum")
        return found


def _tag(f: Field, wire: int) -> bytes:
    number = np.array([f.number << 3 | wire], np.uint64)
    return bytes(varints(number)[0].as_py())


def _is_default(f: Field, array: pa.Array) -> pa.Array:
    if pa.types.is_floating(f.type):
        # A negative zero is not the default.
        bits = array.view(pa.int32() if f.wire == "fixed32" else pa.int64())
        return pc.equal(bits, 0)
    if f.wire == "bytes":
        return pc.equal(pc.binary_length(array), 0)
    return pc.equal(array, _zero(f))


def _zero(f: Field) -> pa.Scalar:
    if f.symbols:
        return pa.scalar(dict(f.symbols).get(0, f.symbols[0][1]))
    if pa.types.is_boolean(f.type):
        return pa.scalar(False)
    if pa.types.is_string(f.type):
        return pa.scalar("")
    return pa.scalar(b"") if pa.types.is_binary(f.type) else pa.scalar(0).cast(f.type)


def _stamp(array: pa.Array) -> list[pa.Array]:
    micros = np.asarray(array.view(pa.int64()))
    seconds = micros // 1_000_000
    nanos = (micros - seconds * 1_000_000) * 1000
    return [pa.array(seconds), pa.array(nanos.astype(np.int32))]
