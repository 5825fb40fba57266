"""Random schemas and rows for the coders' property tests."""

from __future__ import annotations

import datetime
import decimal
import string
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

UTC = pa.timestamp("us", "UTC")
NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=5)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)

_FIRST = datetime.datetime(1900, 1, 1)
_LAST = datetime.datetime(2200, 1, 1)


def flat_types() -> st.SearchStrategy[pa.DataType]:
    return st.sampled_from(
        [
            pa.bool_(),
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.float32(),
            pa.float64(),
            pa.string(),
            pa.binary(),
            pa.date32(),
            pa.time64("us"),
            UTC,
            pa.timestamp("us"),
            pa.decimal128(10, 2),
            pa.decimal128(38, 6),
        ]
    )


def nested(leaves: st.SearchStrategy[pa.DataType], maps: bool) -> st.SearchStrategy[pa.DataType]:
    def deeper(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        lists = inner.map(lambda kind: pa.list_(pa.field("element", kind)))
        structs = st.lists(
            st.tuples(NAMES, inner), min_size=1, max_size=3, unique_by=lambda f: f[0]
        )
        choices = [lists, structs.map(pa.struct)]
        if maps:
            choices.append(inner.map(lambda kind: pa.map_(pa.string(), kind)))
        return st.one_of(choices)

    return st.recursive(leaves, deeper, max_leaves=4)


def values(kind: pa.DataType, finite: bool = True) -> st.SearchStrategy[Any]:
    """Values of a type, as `pa.array` takes them, null among them."""
    return st.none() | _filled(kind, finite)


def _filled(kind: pa.DataType, finite: bool) -> st.SearchStrategy[Any]:
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_integer(kind):
        bits = kind.bit_width
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if pa.types.is_floating(kind):
        return st.floats(width=kind.bit_width, allow_nan=False, allow_infinity=not finite)
    if pa.types.is_string(kind):
        return TEXTS
    if pa.types.is_binary(kind):
        return st.binary(max_size=12)
    if pa.types.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if pa.types.is_date(kind):
        return st.dates(_FIRST.date(), _LAST.date())
    if pa.types.is_time(kind):
        return st.times()
    if pa.types.is_timestamp(kind):
        zone = datetime.UTC if kind.tz else None
        return st.datetimes(_FIRST, _LAST).map(lambda t: t.replace(tzinfo=zone))
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return st.integers(-most, most).map(lambda n: _decimal(n, kind.scale))
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({f.name: values(f.type, finite) for f in kind})
    if pa.types.is_map(kind):
        items = st.dictionaries(TEXTS, values(kind.item_type, finite), max_size=3)
        return items.map(lambda found: list(found.items()))
    return st.lists(values(kind.value_type, finite), max_size=3)


def _decimal(unscaled: int, scale: int) -> decimal.Decimal:
    with decimal.localcontext(decimal.Context(prec=60)):
        return decimal.Decimal(unscaled).scaleb(-scale)


@st.composite
def batches(
    draw: st.DrawFn, kinds: st.SearchStrategy[pa.DataType], max_rows: int = 8, finite: bool = True
) -> pa.RecordBatch:
    """Rows of a random schema."""
    fields = draw(
        st.lists(st.tuples(NAMES, kinds), min_size=1, max_size=5, unique_by=lambda f: f[0])
    )
    schema = pa.schema(fields)
    count = draw(st.integers(0, max_rows))
    columns = [
        pa.array(draw(st.lists(values(f.type, finite), min_size=count, max_size=count)), f.type)
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
