"""`concurrent_map`: many at once, in order by key, with retries."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from core.tests.pipeline.rows import failed, healthy, stage, typed
from penstock.contracts.errors import EphemeralError, SchemaError
from penstock.pipeline.chain import Chain
from penstock.pipeline.graph import Policy
from penstock.pipeline.steps.concurrent import lane_of

SCHEMA = pa.schema([("key", pa.string()), ("n", pa.int64())])


def rows(count: int, keys: int) -> pa.RecordBatch:
    return typed([{"key": f"k{n % keys}", "n": n} for n in range(count)], SCHEMA)


def test_records_are_worked_on_at_the_same_time() -> None:
    together = threading.Barrier(4, timeout=30)

    def meet(record: dict[str, Any]) -> dict[str, Any]:
        together.wait()
        return record

    given = typed([{"key": str(n), "n": n} for n in range(4)], SCHEMA)
    # Records without a key go to the lanes in turn, so four of them need four lanes to meet.
    meta = given.column("_pen")
    given = given.set_column(
        given.schema.get_field_index("_pen"),
        given.schema.field("_pen"),
        pa.StructArray.from_arrays(
            [pa.nulls(4, pa.binary()), *(meta.field(i) for i in range(1, meta.type.num_fields))],
            fields=list(meta.type),
        ),
    )
    out = Chain([stage("concurrent_map", function=meet, lanes=4)], given.schema).apply(given)
    assert [r["n"] for r in healthy(out)] == [0, 1, 2, 3]


def test_each_key_keeps_its_order_and_the_output_keeps_the_inputs() -> None:
    seen: dict[str, list[int]] = defaultdict(list)

    def note(record: dict[str, Any]) -> dict[str, Any]:
        seen[record["key"]].append(record["n"])
        return record

    given = rows(300, keys=7)
    out = Chain([stage("concurrent_map", function=note, key="key")], given.schema).apply(given)
    assert [r["n"] for r in healthy(out)] == list(range(300))
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    assert len(seen) == 7


def test_a_retry_does_not_let_a_later_record_of_its_key_pass() -> None:
    seen: list[int] = []
    tries: list[int] = []

    def flaky(record: dict[str, Any]) -> dict[str, Any]:
        if record["n"] == 0 and len(tries) < 2:
            tries.append(0)
            raise EphemeralError("not yet")
        seen.append(record["n"])
        return record

    given = rows(10, keys=1)
    step = stage("concurrent_map", policy=Policy(backoff=0), function=flaky, key="key")
    _, counts = Chain([step], given.schema).run(given)
    assert seen == list(range(10))
    assert counts["concurrent_map"].retried == 2


def test_a_record_that_fails_harms_no_other() -> None:
    given = rows(20, keys=5)
    step = stage("concurrent_map", function=lambda r: {**r, "n": 1 // (r["n"] - 7)}, key="key")
    out = Chain([step], given.schema).apply(given)
    assert len(healthy(out)) == 19
    assert [p["id"] for p in failed(out)] == ["7"]


def test_a_lane_is_the_same_in_every_process() -> None:
    assert lane_of(b"customer-7", 8) == 0
    assert {lane_of(f"k{n}", 8) for n in range(200)} == set(range(8))


def test_a_key_column_that_is_not_there_is_refused() -> None:
    given = rows(1, keys=1)
    step = stage("concurrent_map", function=lambda r: r, key="nokey")
    with pytest.raises(SchemaError, match="no column nokey"):
        Chain([step], given.schema).apply(given)
