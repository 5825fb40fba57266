"""What clauses look at in rows and positions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pyarrow as pa

from penstock.conformance.rig import Rig
from penstock.contracts.envelope import column


def values(rows: pa.RecordBatch) -> list[bytes | None]:
    found = column(rows, "value")
    if found is None:
        return [b"x" * (rows.nbytes // max(rows.num_rows, 1))] * rows.num_rows
    values: list[bytes | None] = found.to_pylist()
    return values


def column_of(batches: list[pa.RecordBatch], name: str) -> list[Any]:
    out: list[Any] = []
    for rows in batches:
        found = column(rows, name)
        assert found is not None, f"rows have no {name}: {rows.schema.names}"
        out += found.to_pylist()
    return out


def stamps(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    found = column_of(batches, "stamp")
    assert all(s is not None and s["position"] is not None for s in found), "a record has no stamp"
    return found


def stamped(rig: Rig, batches: list[pa.RecordBatch]) -> list[tuple[str, int, str]]:
    where = [(f"{s['origin']}/{s['part']}", s["position"]) for s in stamps(batches)]
    rows = [(*at, id) for at, id in zip(where, rig.ids(batches), strict=True)]
    for (part, low, _), (next_part, high, _) in pairwise(rows):
        assert part != next_part or low != high, f"two neighbours share the stamp {part} {low}"
    return rows


def through_json(position: dict[str, Any]) -> dict[str, Any]:
    back: dict[str, Any] = json.loads(json.dumps(position, sort_keys=True))
    assert back == position, f"a position must survive JSON: {position} became {back}"
    return back


def mapped(position: Any, change: Any) -> Any:
    """A position with every leaf changed."""
    if isinstance(position, dict):
        return {name: mapped(value, change) for name, value in position.items()}
    if isinstance(position, list):
        return [mapped(value, change) for value in position]
    return change(position)


@contextmanager
def elsewhere() -> Iterator[None]:
    """Live in a zone whose clocks were changed just when the suite's records were made."""
    zone = os.environ.get("TZ")
    os.environ["TZ"] = "America/New_York"
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ") if zone is None else os.environ.__setitem__("TZ", zone)
        time.tzset()
