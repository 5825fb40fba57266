"""Types of records as schemas, and schemas as types.

Inside a pipeline every row has `event_time` and `_pen`; a type names the columns without `_pen`.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.contracts.coder import Coder, ObjectCoder
from penstock.contracts.envelope import (
    PEN_FIELD,
    TIMESTAMP,
    UNDECODED,
    is_envelope,
    payload_schema,
    spark_form,
)
from penstock.contracts.transform import Anything, Bytes, Columns, Objects, Transform, Type

EVENT_TIME = pa.field("event_time", TIMESTAMP)
BYTES = payload_schema(UNDECODED)


def with_event_time(schema: pa.Schema) -> pa.Schema:
    """A schema that has `event_time`, put last if it lacks one."""
    return schema if "event_time" in schema.names else schema.append(EVENT_TIME)


def type_of(schema: pa.Schema) -> Type:
    """The type of rows of this schema, with or without `_pen`."""
    if is_envelope(schema):
        return Bytes()
    own = with_event_time(payload_schema(spark_form(schema)))
    return Bytes() if own.equals(BYTES, check_metadata=False) else Columns(own)


def columns_of(kind: Type) -> pa.Schema | None:
    """The columns, without `_pen`, that rows of a type have; None where it is not known yet.

    Objects travel beside the bytes they were parsed from.
    """
    if isinstance(kind, Bytes | Objects):
        return BYTES
    return kind.schema if isinstance(kind, Columns) else None


def full(columns: pa.Schema) -> pa.Schema:
    """The schema of rows as Spark sees them: these columns, then `_pen`."""
    own = with_event_time(payload_schema(columns))
    return spark_form(own).append(PEN_FIELD)


def user_columns(schema: pa.Schema) -> pa.Schema:
    """A schema without what Penstock keeps for itself."""
    return pa.schema([f for f in schema if f.name not in ("_pen", "event_time")])


def decoded(coder: Coder | ObjectCoder) -> Type:
    """What a coder gives; asks it for its schema, so on the driver only."""
    if isinstance(coder, ObjectCoder):
        return Objects(coder.type)
    return Columns(with_event_time(payload_schema(spark_form(coder.schema()))))


def fits(given: Type, wanted: Type) -> bool:
    """Whether a stage that wants one type can take the other as it is."""
    if isinstance(wanted, Anything):
        return not isinstance(given, Objects)
    if isinstance(wanted, Columns):
        if not isinstance(given, Columns | Bytes):
            return False
        have = columns_of(given)
        if wanted.schema is None or have is None:
            return True
        return not missing(have, wanted.schema)
    return given == wanted


def missing(have: pa.Schema, want: pa.Schema) -> list[str]:
    """The wanted columns that are absent or of another family of types, in words."""
    out = []
    for field in user_columns(want):
        index = have.get_field_index(field.name)
        if index < 0:
            out.append(f"{field.name} ({field.type}) is missing")
        elif _family(have.field(index).type) != _family(field.type):
            out.append(f"{field.name} is {have.field(index).type}, not {field.type}")
    return out


def _family(kind: pa.DataType) -> str:
    """Types between which a cast loses nothing that matters to a function."""
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return "struct"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return "list"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "binary"
    return str(kind)


def given_by(transform: Transform, taken: Type) -> Type:
    """What a transform gives, in the form columns have inside a pipeline."""
    out = transform.gives(taken)
    if isinstance(out, Anything):
        return Columns(None)
    if isinstance(out, Columns) and out.schema is not None:
        return type_of(out.schema)
    return out
