"""The record every byte-oriented source yields, and the `_pen` column typed rows carry.

A source yields the *envelope*: `key`, `value`, `headers`, `event_time`, `id` and `stamp`.
Inside a pipeline rows carry their own columns (`value` while undecoded), `event_time` at top
level, because watermarks need it there, and one reserved struct column `_pen`.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.contracts.errors import SchemaError

TIMESTAMP = pa.timestamp("us", tz="UTC")

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))

STAMP = pa.struct(
    [
        pa.field("origin", pa.string()),
        pa.field("part", pa.string()),
        pa.field("position", pa.int64()),
    ]
)
"""Names a record for ever; `position` orders the records of one (origin, part)."""

ERROR = pa.struct(
    [
        pa.field("node", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("message", pa.string()),
        pa.field("traceback", pa.string()),
        pa.field("original", pa.binary()),
        pa.field("input", pa.binary()),
        pa.field("attempt", pa.int32()),
        pa.field("at", TIMESTAMP),
    ]
)
"""Why a record could not go on: `original` is the source's bytes where they are still known,
`input` the record as the failing node got it (a one-row Arrow IPC stream)."""

ENVELOPE = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("event_time", TIMESTAMP),
        pa.field("id", pa.string()),
        pa.field("stamp", STAMP),
    ]
)

PEN = pa.struct(
    [
        pa.field("key", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("id", pa.string()),
        pa.field("stamp", STAMP),
        pa.field("error", ERROR),
        pa.field("original", pa.binary()),
    ]
)
"""What every step keeps. `original` holds the source's bytes where `value` no longer does and a
later step or sink may still fail, for its dead letter; elsewhere it is null."""
PEN_FIELD = pa.field("_pen", PEN)

UNDECODED = pa.schema(
    [pa.field("value", pa.binary()), pa.field("event_time", TIMESTAMP), PEN_FIELD]
)
"""What an envelope becomes inside a pipeline."""


def is_envelope(schema: pa.Schema) -> bool:
    """Whether rows of this schema are envelopes (by names and types, not by metadata)."""
    return bool(schema.equals(ENVELOPE, check_metadata=False))


def stamps(origin: str, part: str, positions: pa.Array) -> pa.StructArray:
    """The stamp column of rows that share an origin and a part."""
    count = len(positions)
    return pa.StructArray.from_arrays(
        [pa.repeat(origin, count), pa.repeat(part, count), positions.cast(pa.int64())],
        fields=list(STAMP),
    )


def pen(
    count: int,
    *,
    key: pa.Array | None = None,
    headers: pa.Array | None = None,
    id: pa.Array | None = None,
    stamp: pa.Array | None = None,
    error: pa.Array | None = None,
    original: pa.Array | None = None,
) -> pa.StructArray:
    """A `_pen` column; what is not given is null."""
    given = (key, headers, id, stamp, error, original)
    arrays = [
        pa.nulls(count, f.type) if array is None else array
        for f, array in zip(PEN, given, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(PEN))


def undecoded(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Envelope rows in the form a pipeline carries: `value`, `event_time`, `_pen`."""
    meta = pen(
        rows.num_rows,
        key=rows.column("key"),
        headers=rows.column("headers"),
        id=rows.column("id"),
        stamp=rows.column("stamp"),
    )
    return pa.RecordBatch.from_arrays(
        [rows.column("value"), rows.column("event_time"), meta], schema=UNDECODED
    )


def column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    """An envelope column of rows in either form: at top level, else within `_pen`, else None."""
    index = rows.schema.get_field_index(name)
    if index >= 0:
        return rows.column(index)
    at = rows.schema.get_field_index("_pen")
    if at >= 0 and PEN.get_field_index(name) >= 0:
        return rows.column(at).field(name)
    return None


def payload_schema(schema: pa.Schema) -> pa.Schema:
    """The user's own columns: a schema without `_pen`."""
    return pa.schema([f for f in schema if f.name != "_pen"])


def spark_form(schema: pa.Schema) -> pa.Schema:
    """The schema as Spark wants its Arrow: nullable fields, plain strings, `element` in lists.

    Raises:
        SchemaError: a type that Spark does not have.
    """
    return pa.schema([pa.field(f.name, _spark_type(f.type, f.name)) for f in schema])


def _spark_type(kind: pa.DataType, where: str) -> pa.DataType:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type, where)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_unsigned_integer(kind):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        return wider[kind.bit_width]
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", _spark_type(kind.value_type, where)))
    if pa.types.is_map(kind):
        return pa.map_(_spark_type(kind.key_type, where), _spark_type(kind.item_type, where))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _spark_type(f.type, f"{where}.{f.name}")) for f in kind])
    if pa.types.is_union(kind) or pa.types.is_duration(kind) or pa.types.is_decimal256(kind):
        raise SchemaError(
            f"the column {where} has a type that Spark does not have",
            expected="a type of the mapping table in the docs",
            got=str(kind),
            fix="cast the column, or decode it to another type",
        )
    return kind


def conform(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in exactly this schema: columns by name, cast where types differ.

    Raises:
        SchemaError: a column is missing or cannot be cast.
    """
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    columns = []
    for wanted in schema:
        index = rows.schema.get_field_index(wanted.name)
        if index < 0:
            raise SchemaError(
                f"the column {wanted.name} is missing",
                expected=", ".join(schema.names),
                got=", ".join(rows.schema.names),
            )
        array = rows.column(index)
        if not array.type.equals(wanted.type):
            try:
                array = array.cast(wanted.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SchemaError(
                    f"the column {wanted.name} cannot be cast",
                    expected=str(wanted.type),
                    got=f"{array.type} ({error})",
                ) from error
        columns.append(array)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
