"""Counts of stages fused into a reader, on their way through Spark.

Spark gives a reader no channel but its rows: so each part ends with one row of nulls whose
`_pen.error` says that it is a tally, not a failure. Steps keep error rows, tasks that write take
tallies out again.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from penstock.contracts.envelope import ERROR, pen
from penstock.pipeline.counts import Counts

TALLY = "penstock:tally"


def tally(counts: Counts, schema: pa.Schema) -> pa.RecordBatch:
    """One row of `schema` that carries counts."""
    said = {"kind": TALLY, "message": json.dumps(counts.to_json())}
    error = pa.array([{name: said.get(name) for name in ERROR.names}], ERROR)
    columns = [pen(1, error=error) if f.name == "_pen" else pa.nulls(1, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def split_tallies(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Counts]:
    """Error rows without the tallies among them, and the sum of those."""
    kind = rows.column("_pen").field("error").field("kind")
    is_tally = pc.fill_null(pc.equal(kind, TALLY), False)
    if not pc.any(is_tally).as_py():
        return rows, Counts()
    total = Counts()
    said = rows.filter(is_tally).column("_pen").field("error").field("message")
    for text in said.to_pylist():
        total = total + Counts.from_json(json.loads(text))
    return rows.filter(pc.invert(is_tally)), total
