"""Any pipeline gives what plain Python gives, fused or not, however its rows are batched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tests.pipeline.rows import failed, healthy, stage, typed
from penstock.pipeline.chain import Chain
from penstock.pipeline.plan import Stage

SCHEMA = pa.schema([("key", pa.string()), ("n", pa.int64()), ("x", pa.float64())])
Record = dict[str, Any]


@frozen
class Piece:
    """A step, and what plain Python makes of one record: several records, or an error."""

    stage: Callable[[str], Stage]
    plain: Callable[[Record], list[Record]]


def _raise_at(m: int) -> Callable[[Record], Record]:
    def function(record: Record) -> Record:
        if record["n"] is not None and record["n"] % 7 == m:
            raise ValueError("seven")
        return record

    return function


def _add(k: int) -> Callable[[Record], Record]:
    return lambda r: {**r, "n": None if r["n"] is None else (r["n"] + k) % 1_000}


def _add_batch(k: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        made = [None if n is None else (n + k) % 1_000 for n in batch.column("n").to_pylist()]
        return batch.set_column(batch.schema.names.index("n"), "n", pa.array(made, pa.int64()))

    return function


def _keep(m: int) -> Callable[[Record], bool]:
    return lambda r: r["n"] is None or r["n"] % 3 != m


def _copies(c: int) -> Callable[[Record], list[Record]]:
    return lambda r: [dict(r) for _ in range((r["n"] or 0) % c)]


def _map(function: Callable[[Record], Record], what: str = "map") -> Piece:
    return Piece(lambda name: stage(what, name, function=function), lambda r: [function(r)])


numbers = st.integers(0, 6)
pieces = st.one_of(
    numbers.map(lambda k: _map(_add(k))),
    numbers.map(lambda k: _map(_add(k), "concurrent_map")),
    numbers.map(lambda m: _map(_raise_at(m))),
    numbers.map(
        lambda k: Piece(
            lambda name: stage("map_batches", name, function=_add_batch(k)), lambda r: [_add(k)(r)]
        )
    ),
    st.integers(0, 2).map(
        lambda m: Piece(
            lambda name: stage("filter", name, function=_keep(m)),
            lambda r: [r] if _keep(m)(r) else [],
        )
    ),
    st.integers(1, 3).map(
        lambda c: Piece(lambda name: stage("flat_map", name, function=_copies(c)), _copies(c))
    ),
    st.just(
        Piece(
            lambda name: stage("validate", name, required=["x"]),
            lambda r: [r] if r["x"] is not None else [][1],  # type: ignore[list-item]
        )
    ),
    st.just(Piece(lambda name: stage("key_by", name, columns=["key"]), lambda r: [r])),
)
records = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.one_of(st.none(), st.text(max_size=3)),
            "n": st.one_of(st.none(), st.integers(0, 999)),
            "x": st.one_of(st.none(), st.floats(allow_nan=False, width=32)),
        }
    ),
    max_size=40,
)


def plainly(steps: list[Piece], given_records: list[Record]) -> tuple[list[Record], int]:
    """What plain Python gives, and how many records (or their descendants) failed."""
    current, errors = list(given_records), 0
    for step in steps:
        after: list[Record] = []
        for record in current:
            try:
                after += step.plain(dict(record))
            except (ValueError, IndexError):
                errors += 1
        current = after
    return current, errors


def multiset(found: list[Record]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(record[name] for name in SCHEMA.names) for record in found)


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces, max_size=6), records, st.lists(st.integers(0, 40), max_size=3))
def test_fused_in_any_batches_it_gives_what_plain_python_gives(
    steps: list[Piece], given_records: list[Record], cuts: list[int]
) -> None:
    wanted, errors = plainly(steps, given_records)
    rows = typed(given_records, SCHEMA)
    chain = Chain([step.stage(f"s{n}") for n, step in enumerate(steps)], rows.schema)
    edges = [0, *sorted(min(c, rows.num_rows) for c in cuts), rows.num_rows]
    outs = [chain.apply(rows.slice(a, b - a)) for a, b in pairwise(edges)]
    found = [record for out in outs for record in healthy(out)]
    assert found == wanted
    assert sum(len(failed(out)) for out in outs) == errors


@settings(max_examples=80, deadline=None)
@given(st.lists(pieces, max_size=6), records)
def test_one_chain_and_a_chain_per_stage_give_the_same(
    steps: list[Piece], given_records: list[Record]
) -> None:
    rows = typed(given_records, SCHEMA)
    stages = [step.stage(f"s{n}") for n, step in enumerate(steps)]
    whole = Chain(stages, rows.schema).apply(rows)
    apart = rows
    for each in stages:
        apart = Chain([each], apart.schema).apply(apart)
    assert multiset(healthy(apart)) == multiset(healthy(whole))

    def told(out: pa.RecordBatch) -> list[tuple[Any, ...]]:
        return sorted((p["id"], p["error"]["node"], p["error"]["kind"]) for p in failed(out))

    assert told(apart) == told(whole)
    assert [r["_pen"]["id"] for r in apart.to_pylist()] == [
        r["_pen"]["id"] for r in whole.to_pylist()
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(pieces, max_size=5), records)
def test_no_record_is_lost_between_the_counts(
    steps: list[Piece], given_records: list[Record]
) -> None:
    rows = typed(given_records, SCHEMA)
    stages = [step.stage(f"s{n}") for n, step in enumerate(steps)]
    out, counts = Chain(stages, rows.schema).run(rows)
    flowing = rows.num_rows
    for each in stages:
        count = counts[each.name]
        assert count.rows_in == flowing
        flowing = count.rows_out
    assert flowing == len(healthy(out))
    assert sum(counts[s.name].errors for s in stages) == len(failed(out))
