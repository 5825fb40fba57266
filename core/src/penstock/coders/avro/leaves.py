"""Numbers, text and bytes under all cursors at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.coders.avro.resolve import Leaf
from penstock.coders.avro.types import Fixed, Primitive, arrow
from penstock.coders.cursors import At, Buffer, Ints, fixed, varints, zigzag
from penstock.coders.numbers import decimals, uuids
from penstock.coders.pieces import slices
from penstock.coders.text import utf8

DAY = 86_400_000_000
_INT = 2**31
_MILLI = 2**63 // 1000


def longs(buffer: Buffer, at: At, path: str) -> tuple[Ints, At]:
    """The zigzag varint under each cursor."""
    found, pos = varints(buffer, at.pos)
    return zigzag(found), at.moved(buffer, pos, f"{path} is cut off, or a number too long")


def read(buffer: Buffer, plan: Leaf, at: At, path: str, want: bool) -> tuple[pa.Array, At]:
    """Values of a plain type as an Arrow array, and the cursors after them."""
    written = plan.written
    if isinstance(written, Fixed):
        after = at.moved(buffer, at.pos + written.size, f"{path} is cut off")
        array = _fixed(buffer, plan.read, at.pos, after, path) if want else None
        return array, after
    kind = written.kind
    if kind in ("int", "long"):
        numbers, after = longs(buffer, at, path)
        if kind == "int":
            _refuse(buffer, at, (numbers < -_INT) | (numbers >= _INT), path, "an int")
        return (_whole(buffer, plan, numbers, at, path) if want else None), after
    if kind in ("string", "bytes"):
        size, inner = longs(buffer, at, path)
        wrong = (size < 0) | (size > inner.end - inner.pos)
        if wrong.any():
            buffer.blame(at.rows[wrong], f"{path} is cut off, or has an impossible length")
            size = np.where(wrong, 0, size)
        after = At(inner.pos + size, at.end, at.rows)
        return (_bytes(buffer, plan, inner.pos, after, path) if want else None), after
    if kind == "null":
        return pa.nulls(len(at)), at
    if kind == "boolean":
        truth = buffer.data[at.pos]
        _refuse(buffer, at, truth > 1, path, "a boolean")
        after = at.moved(buffer, at.pos + 1, f"{path} is cut off")
        return (pa.array(truth == 1) if want else None), after
    width = 4 if kind == "float" else 8
    after = at.moved(buffer, at.pos + width, f"{path} is cut off")
    if not want:
        return None, after
    real = pa.array(fixed(buffer, at.pos, f"<f{width}"))
    return real.cast(arrow(plan.read)), after


def _refuse(buffer: Buffer, at: At, wrong: np.ndarray, path: str, what: str) -> None:
    if wrong.any():
        buffer.blame(at.rows[wrong], f"{path} is out of the range of {what}")


def _whole(buffer: Buffer, plan: Leaf, numbers: Ints, at: At, path: str) -> pa.Array:
    want = arrow(plan.read)
    if pa.types.is_floating(want):
        return pa.array(numbers.astype(want.to_pandas_dtype()))
    if pa.types.is_timestamp(want) or pa.types.is_time(want):
        # The writer counted: a reader's other unit says nothing about the number.
        logical = plan.written.logical or plan.read.logical or ""
        if logical.endswith("millis"):
            wide = (numbers < -_MILLI) | (numbers >= _MILLI)
            _refuse(buffer, at, wide, path, "a timestamp")
            numbers = np.where(wide, 0, numbers) * 1000
        elif logical.endswith("nanos"):
            numbers = numbers // 1000
        if pa.types.is_time(want):
            _refuse(buffer, at, (numbers < 0) | (numbers >= DAY), path, "a time of day")
        return pa.array(numbers).view(want)
    if pa.types.is_date32(want):
        return pa.array(numbers.astype(np.int32)).view(want)
    return pa.array(numbers.astype(np.int32) if pa.types.is_int32(want) else numbers)


def _bytes(buffer: Buffer, plan: Leaf, starts: Ints, after: At, path: str) -> pa.Array:
    reader = plan.read
    if reader.logical == "decimal":
        return _decimal(buffer, reader, starts, after, path)
    array = slices(buffer.data, starts, after.pos)
    if isinstance(reader, Primitive) and reader.kind == "string":
        return text(buffer, array, after, path)
    return array


def text(buffer: Buffer, array: pa.Array, at: At, path: str) -> pa.Array:
    """Bytes as text; a row whose bytes are no UTF-8 is blamed."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        _, errors = utf8(array)
        bad = np.array([error.row for error in errors])
        buffer.blame(at.rows[bad], f"{path} is not valid UTF-8")
        keep = np.ones(len(array), bool)
        keep[bad] = False
        return pa.compute.if_else(pa.array(keep), array, pa.scalar(b"", pa.binary())).cast(
            pa.string()
        )


def _fixed(
    buffer: Buffer, reader: Primitive | Fixed, starts: Ints, after: At, path: str
) -> pa.Array:
    if reader.logical == "decimal":
        return _decimal(buffer, reader, starts, after, path)
    if pa.types.is_string(arrow(reader)):
        return uuids(buffer.data, starts)
    return slices(buffer.data, starts, after.pos)


def _decimal(
    buffer: Buffer, kind: Primitive | Fixed, starts: Ints, after: At, path: str
) -> pa.Array:
    array, wide = decimals(buffer, starts, after.pos, arrow(kind))
    if wide.any():
        buffer.blame(after.rows[wide], f"{path} has more digits than its precision")
    return array
