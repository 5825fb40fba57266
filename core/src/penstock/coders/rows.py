"""Coders applied to the rows a pipeline carries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.contracts.coder import Coder, RowError
from penstock.contracts.envelope import PEN_FIELD, TIMESTAMP, UNDECODED, payload_schema
from penstock.contracts.errors import SchemaError

_TIME = "event_time"


def decoded_schema(coder: Coder) -> pa.Schema:
    """The rows that `decode_rows` gives: the coder's columns, `event_time` and `_pen`.

    A column of the coder's own named `event_time` takes the place of the envelope's.

    Raises:
        SchemaError: the coder's schema cannot be known, or uses a reserved name.
    """
    own = coder.schema()
    if "_pen" in own.names:
        raise SchemaError(
            "the column _pen is reserved", expected="another name", fix="rename it in the schema"
        )
    if _TIME in own.names:
        kind = own.field(_TIME).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            raise SchemaError(
                "the column event_time is the time of the event, for watermarks",
                expected="a timestamp or a date",
                got=str(kind),
                fix="rename it in the schema",
            )
    columns = [field for field in own if field.name != _TIME]
    return pa.schema([*columns, pa.field(_TIME, TIMESTAMP), PEN_FIELD])


def decode_rows(
    rows: pa.RecordBatch, coder: Coder
) -> tuple[pa.RecordBatch, pa.Array | None, tuple[RowError, ...]]:
    """Decode the `value` of undecoded rows.

    Returns:
        The rows in `decoded_schema(coder)`; for each the input row it came from (None: the same
        ones); and the errors by input row. A row whose value is null gives neither.
    """
    done = coder.decode(rows.column("value"))
    kept = rows if done.origin is None else rows.take(done.origin)
    time = kept.column(_TIME)
    columns = []
    for index, field in enumerate(done.rows.schema):
        if field.name == _TIME:
            time = pc.coalesce(done.rows.column(index).cast(TIMESTAMP), time)
        else:
            columns.append(pa.field(field.name, field.type, nullable=True))
    arrays = [done.rows.column(field.name) for field in columns]
    schema = pa.schema([*columns, pa.field(_TIME, TIMESTAMP), PEN_FIELD])
    whole = pa.RecordBatch.from_arrays([*arrays, time, kept.column("_pen")], schema=schema)
    return whole, done.origin, done.errors


def encode_rows(
    rows: pa.RecordBatch, coder: Coder
) -> tuple[pa.RecordBatch, pa.Array | None, tuple[RowError, ...]]:
    """Encode typed rows into undecoded ones.

    Returns:
        The rows as `value`, `event_time`, `_pen`; the input row of each (None: the same ones);
        and the errors by input row.
    """
    wanted = coder.schema().names
    own = rows.select([n for n in payload_schema(rows.schema).names if n in wanted])
    done = coder.encode(own)
    whole = pa.RecordBatch.from_arrays(
        [done.values, rows.column(_TIME), rows.column("_pen")], schema=UNDECODED
    )
    if not done.errors:
        return whole, None, ()
    keep = np.ones(rows.num_rows, bool)
    keep[[error.row for error in done.errors]] = False
    origin = pa.array(np.flatnonzero(keep), pa.int32())
    return whole.take(origin), origin, done.errors
