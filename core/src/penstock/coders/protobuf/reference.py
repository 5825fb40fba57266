"""Protobuf through Google's own library: what the fast path is held to, and for odd messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError

from penstock.coders.protobuf.types import Field, Message
from penstock.contracts.errors import CodecError


def decode(values: list[bytes], cls: Any, message: Message) -> pa.RecordBatch:
    """Messages as columns, one by one.

    Raises:
        CodecError: one of them is bad.
    """
    rows = []
    for value in values:
        found = cls()
        try:
            found.ParseFromString(value)
        except DecodeError:
            raise CodecError("it is no such Protobuf message") from None
        rows.append(_message(found, message))
    arrays = [pa.array([row[f.name] for row in rows], f.column) for f in message.fields]
    return pa.RecordBatch.from_arrays(arrays, names=[f.name for f in message.fields])


def _message(found: Any, message: Message) -> dict[str, Any]:
    return {f.name: _field(found, f) for f in message.fields}


def _field(found: Any, f: Field) -> Any:
    value = getattr(found, f.name)
    if f.shape == "map" and f.message is not None:
        entry = f.message.fields[1]
        return [(key, _one(value[key], entry)) for key in value]
    if f.shape == "many":
        return [_one(each, f) for each in value]
    if (f.presence or f.message is not None) and not found.HasField(f.name):
        return None
    return _one(value, f)


def _one(value: Any, f: Field) -> Any:
    if f.stamp:
        return pa.scalar(value.seconds * 1_000_000 + value.nanos // 1000, f.type)
    if f.message is not None:
        return _message(value, f.message)
    if f.symbols:
        return dict(f.symbols).get(value, str(value))
    return value
