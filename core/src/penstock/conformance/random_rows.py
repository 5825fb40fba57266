"""Random rows of any Arrow schema, from a seed: what round trips are tried with."""

from __future__ import annotations

import random
import string
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

_LETTERS = string.ascii_letters + string.digits + " .,:;&=%+<>{}[]\"'\\/éßΩ日本𝄞"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def random_rows(
    schema: pa.Schema, count: int, chance: random.Random, nulls: float = 0.15
) -> pa.RecordBatch:
    """So many rows of a schema; a share of the values is null."""
    columns = [
        pa.array([_maybe(f.type, chance, nulls) for _ in range(count)], f.type) for f in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _maybe(kind: pa.DataType, chance: random.Random, nulls: float) -> Any:
    return None if chance.random() < nulls else value(kind, chance, nulls)


def value(kind: pa.DataType, chance: random.Random, nulls: float = 0.15) -> Any:
    """One random value of a type.

    Raises:
        TypeError: no value of this type is known here.
    """
    t = pa.types
    if t.is_boolean(kind):
        return chance.random() < 0.5
    if t.is_integer(kind):
        bits = kind.bit_width - (0 if t.is_unsigned_integer(kind) else 1)
        low = 0 if t.is_unsigned_integer(kind) else -(2**bits)
        return chance.choice([low, 2**bits - 1, 0, chance.randint(-100, 100) if low else 7])
    if t.is_float32(kind):
        return chance.choice([0.0, -0.5, 0.25, 1024.0, 3.0e7])
    if t.is_floating(kind):
        return chance.choice([0.0, -1.5, 1e-300, 1.7e308, chance.uniform(-1e6, 1e6)])
    if t.is_decimal(kind):
        digits = chance.randint(-(10**kind.precision) + 1, 10**kind.precision - 1)
        return Decimal(digits).scaleb(-kind.scale)
    if t.is_string(kind) or t.is_large_string(kind):
        return "".join(chance.choices(_LETTERS, k=chance.randint(1, 12)))
    if t.is_fixed_size_binary(kind):
        return chance.randbytes(kind.byte_width)
    if t.is_binary(kind) or t.is_large_binary(kind):
        return chance.randbytes(chance.randint(1, 12))
    return _instant(kind, chance) or _nested(kind, chance, nulls)


def _instant(kind: pa.DataType, chance: random.Random) -> Any:
    t = pa.types
    if t.is_date(kind):
        return date(1970, 1, 1) + timedelta(days=chance.randint(-20_000, 40_000))
    if t.is_timestamp(kind):
        unit = {"s": 10**6, "ms": 1000, "us": 1, "ns": 1}[kind.unit]
        micros = chance.randint(-(10**15), 4 * 10**15) // unit * unit
        at = _EPOCH + timedelta(microseconds=micros)
        return at if kind.tz else at.replace(tzinfo=None)
    if t.is_time(kind):
        unit = {"s": 10**6, "ms": 1000, "us": 1, "ns": 1}[kind.unit]
        micros = chance.randrange(86_400 * 10**6) // unit * unit
        return (datetime.min + timedelta(microseconds=micros)).time() or time.min
    return None


def _nested(kind: pa.DataType, chance: random.Random, nulls: float) -> Any:
    t = pa.types
    if t.is_struct(kind):
        return {f.name: _maybe(f.type, chance, nulls) for f in kind}
    if t.is_list(kind) or t.is_large_list(kind):
        return [_maybe(kind.value_type, chance, nulls) for _ in range(chance.randint(0, 3))]
    if t.is_map(kind):
        keys = {value(kind.key_type, chance): None for _ in range(chance.randint(0, 3))}
        return [(key, _maybe(kind.item_type, chance, nulls)) for key in keys]
    raise TypeError(f"no random value of type {kind}: give the case rows=")
