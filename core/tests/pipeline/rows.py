"""Rows as they come into a chain, and what comes out as plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.contracts.envelope import PEN_FIELD, TIMESTAMP, pen, stamps
from penstock.pipeline.functions import Function
from penstock.pipeline.graph import Policy
from penstock.pipeline.plan import Stage
from penstock.pipeline.steps.catalog import STEPS


def typed(records: Sequence[dict[str, Any]], schema: pa.Schema, start: int = 0) -> pa.RecordBatch:
    """Rows with these columns, stamps and ids from `start`."""
    count = len(records)
    rows = pa.RecordBatch.from_pylist(list(records), schema=schema)
    times = pa.array(range(start, start + count), pa.int64()).cast(TIMESTAMP)
    numbers = pa.array(range(start, start + count), pa.int64())
    meta = pen(
        count,
        id=numbers.cast(pa.string()),
        key=numbers.cast(pa.string()).cast(pa.binary()),
        stamp=stamps("test", "0", numbers),
    )
    rows = rows.append_column(pa.field("event_time", TIMESTAMP), times)
    return rows.append_column(PEN_FIELD, meta)


def undecoded(values: Sequence[bytes | None], start: int = 0) -> pa.RecordBatch:
    """Undecoded rows."""
    return typed([{"value": v} for v in values], pa.schema([("value", pa.binary())]), start)


def stage(
    what: str, /, name: str | None = None, policy: Policy | None = None, **options: Any
) -> Stage:
    """A stage of a built-in step; callables become functions."""
    wrapped = {k: Function.of(v) if callable(v) else v for k, v in options.items()}
    work = STEPS[what](**wrapped)
    return Stage(name or what, name or what, "step", what, work, policy=policy or Policy(backoff=0))


def healthy(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """The records that did not fail, without what Penstock keeps."""
    return [
        {k: v for k, v in row.items() if k not in ("_pen", "event_time")}
        for row in rows.to_pylist()
        if row["_pen"]["error"] is None
    ]


def failed(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """`_pen` of the records that failed."""
    return [row["_pen"] for row in rows.to_pylist() if row["_pen"]["error"] is not None]
