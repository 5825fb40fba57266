"""Fused stages: what happens to rows, to bad rows, and to what Penstock keeps beside them."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

from core.tests.pipeline import functions as fn
from core.tests.pipeline.rows import failed, healthy, stage, typed, undecoded
from core.tests.pipeline.standins import TagCoder, TagFilter
from penstock.coders.json import JsonCoder
from penstock.contracts import UNDECODED, Coder, Decoded, Encoded, RowError
from penstock.contracts.errors import EphemeralError, TypeMismatchError
from penstock.contracts.options import parse
from penstock.pipeline.chain import Chain, StageFailed
from penstock.pipeline.counts import Count, Counts
from penstock.pipeline.graph import Policy
from penstock.pipeline.plan import Stage
from penstock.pipeline.work import read_row

ORDERS = pa.schema([("id", pa.int64()), ("total", pa.float64())])


def orders(count: int = 10) -> pa.RecordBatch:
    return typed([{"id": n, "total": n * 10.0} for n in range(count)], ORDERS)


def run(*stages: Stage, rows: pa.RecordBatch | None = None) -> tuple[pa.RecordBatch, Counts]:
    rows = orders() if rows is None else rows
    return Chain(stages, rows.schema).run(rows)


def json_stage(kind: Any = "decode") -> Stage:
    coder = parse(JsonCoder, {"schema": "id long, total double"})
    return Stage(kind, kind, kind, "json", coder)


def bad_id(*bad: int) -> Any:
    def function(record: dict[str, Any]) -> dict[str, Any]:
        if record["id"] in bad:
            raise ValueError(f"no {record['id']}")
        return record

    return function


def test_an_empty_chain_gives_rows_in_sparks_form() -> None:
    rows = pa.RecordBatch.from_pydict({"name": pa.array(["a"], pa.large_string())})
    chain = Chain((), rows.schema)
    out = chain.apply(rows)
    assert out.schema.equals(chain.schema)
    assert chain.schema.names == ["name", "event_time", "_pen"]
    assert chain.schema.field("name").type == pa.string()


def test_undecoded_rows_keep_their_schema() -> None:
    assert Chain((), UNDECODED).schema.equals(UNDECODED)


def test_a_chain_travels_to_another_process() -> None:
    chain = Chain([stage("map", function=lambda r: {**r, "total": 1.0})], orders().schema)
    chain.run(orders())
    again = cloudpickle.loads(cloudpickle.dumps(chain))
    assert healthy(again.apply(orders(2))) == [{"id": 0, "total": 1.0}, {"id": 1, "total": 1.0}]


def test_stages_run_one_after_the_other_and_count_what_they_saw() -> None:
    out, counts = run(
        stage("filter", function=lambda r: r["id"] % 2 == 0),
        stage("map", function=lambda r: {**r, "total": r["total"] + 1}),
    )
    assert healthy(out) == [{"id": n, "total": n * 10.0 + 1} for n in range(0, 10, 2)]
    assert counts == Counts({"filter": Count(10, 5), "map": Count(5, 5)})


def test_counts_add_up_and_survive_json() -> None:
    one = Counts({"a": Count(1, 2, 3, 4, 5)})
    both = one + Counts({"a": Count(1, 1, 1, 1, 1), "b": Count(7)})
    assert both["a"] == Count(2, 3, 4, 5, 6)
    assert Counts.from_json(both.to_json()) == both
    assert both["absent"] == Count()


def test_what_penstock_keeps_stays_with_its_record() -> None:
    out, _ = run(
        stage("filter", function=lambda r: r["id"] in (3, 7)),
        stage("map", function=lambda r: {**r, "total": 0.0}),
    )
    rows = out.to_pylist()
    assert [row["_pen"]["id"] for row in rows] == ["3", "7"]
    assert [row["_pen"]["stamp"]["position"] for row in rows] == [3, 7]
    assert [row["event_time"].microsecond for row in rows] == [3, 7]


def test_only_the_guilty_record_fails() -> None:
    out, counts = run(stage("map", function=bad_id(4, 8)))
    assert [r["id"] for r in healthy(out)] == [0, 1, 2, 3, 5, 6, 7, 9]
    assert [p["stamp"]["position"] for p in failed(out)] == [4, 8]
    assert counts["map"] == Count(rows_in=10, rows_out=8, errors=2)


def test_an_error_row_tells_all_that_a_dead_letter_needs() -> None:
    rows = undecoded([b'{"id": 1, "total": 2}', b'{"id": 4, "total": 2}'])
    out, _ = Chain([json_stage(), stage("map", name="enrich", function=bad_id(4))], UNDECODED).run(
        rows
    )
    [pen] = failed(out)
    error = pen["error"]
    assert (error["node"], error["kind"], error["message"]) == ("enrich", "ValueError", "no 4")
    assert "Traceback" in error["traceback"]
    assert error["original"] == b'{"id": 4, "total": 2}'
    assert error["attempt"] == 1
    assert isinstance(error["at"], datetime.datetime)
    got = read_row(error["input"]).to_pylist()
    assert (got[0]["id"], got[0]["total"]) == (4, 2.0)
    assert got[0]["_pen"]["stamp"]["position"] == 1
    assert pen["key"] == b"1"


def test_the_original_is_found_after_rows_were_dropped_and_multiplied() -> None:
    values = [b'{"id": %d, "total": 1}' % n for n in range(6)]
    out, _ = Chain(
        [
            json_stage(),
            stage("filter", function=lambda r: r["id"] > 2),
            stage("flat_map", function=lambda r: [r, r]),
            stage("map", name="last", function=bad_id(4)),
        ],
        UNDECODED,
    ).run(undecoded(values))
    assert [p["error"]["original"] for p in failed(out)] == [values[4], values[4]]


def halves(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pa.array([n % 2 == 0 for n in range(batch.num_rows)]))


def test_the_original_is_known_after_a_function_over_batches_that_keeps_some_rows() -> None:
    values = [b'{"id": %d, "total": 1}' % n for n in range(6)]
    out, _ = Chain(
        [
            json_stage(),
            stage("map_batches", function=halves),
            stage("map", name="last", function=bad_id(4)),
        ],
        UNDECODED,
    ).run(undecoded(values))
    assert [p["error"]["original"] for p in failed(out)] == [values[4]]


def test_a_chain_that_carries_hands_the_original_to_the_next_one() -> None:
    values = [b'{"id": %d, "total": 1}' % n for n in range(6)]
    stages = [
        json_stage(),
        stage("filter", function=lambda r: r["id"] > 2),
        stage("flat_map", function=lambda r: [r, r]),
    ]
    first = Chain(stages, UNDECODED, carries=True)
    rows = first.apply(undecoded(values))
    assert [p["original"] for p in rows.column("_pen").to_pylist()] == [
        values[n] for n in (3, 3, 4, 4, 5, 5)
    ]
    shuffled = rows.take(pa.array([5, 2, 0, 3, 1, 4]))
    out = Chain([stage("map", name="last", function=bad_id(4))], first.schema).apply(shuffled)
    assert [p["error"]["original"] for p in failed(out)] == [values[4], values[4]]
    assert read_row(failed(out)[0]["error"]["input"]).to_pylist()[0]["_pen"]["original"] is None
    assert {p["original"] for p in out.column("_pen").to_pylist()} == {None}


def test_a_chain_that_carries_nothing_leaves_the_field_empty() -> None:
    rows = Chain([json_stage()], UNDECODED).apply(undecoded([b'{"id": 1}', b'{"id": 2}']))
    assert rows.column("_pen").field("original").null_count == 2


def test_bytes_that_were_carried_count_before_those_that_were_encoded_since() -> None:
    given = undecoded([b'{"id": 1, "total": 2}'])
    first = Chain([json_stage(), json_stage("encode")], UNDECODED, carries=True)
    rows = first.apply(given)
    assert rows.column("value").to_pylist() != given.column("value").to_pylist()
    out = Chain([stage("map", name="last", function=lambda r: 1 / 0)], first.schema).apply(rows)
    [told] = failed(out)
    assert told["error"]["original"] == b'{"id": 1, "total": 2}'


def test_a_large_record_that_became_many_leaves_its_bytes_behind() -> None:
    large = b'{"id": 1, "total": 2%s}' % (b" " * 40_000)
    values = [large, b'{"id": 2, "total": 2}']
    twice = Chain(
        [json_stage(), stage("flat_map", function=lambda r: [r, r])], UNDECODED, carries=True
    )
    carried = twice.apply(undecoded(values)).column("_pen").field("original")
    assert carried.to_pylist() == [None, None, values[1], values[1]]
    once = Chain([json_stage()], UNDECODED, carries=True)
    assert once.apply(undecoded(values)).column("_pen").field("original").to_pylist() == values


def test_error_rows_pass_untouched_through_later_stages_and_chains() -> None:
    first, _ = run(stage("map", function=bad_id(4)))
    before = failed(first)
    second, counts = run(stage("map", name="m2", function=lambda r: r), rows=first)
    assert failed(second) == before
    assert counts["m2"] == Count(9, 9)


def test_error_rows_have_null_columns() -> None:
    out, _ = run(stage("map", function=bad_id(4)))
    last = out.slice(out.num_rows - 1).to_pylist()[0]
    assert last["_pen"]["error"] is not None
    assert last["id"] is None
    assert last["event_time"] is None


def test_skip_counts_and_leaves_out() -> None:
    out, counts = run(stage("map", policy=Policy("skip"), function=bad_id(4)))
    assert failed(out) == []
    assert counts["map"] == Count(rows_in=10, rows_out=9, skipped=1)


def test_stop_names_node_and_record_and_keeps_the_cause() -> None:
    with pytest.raises(StageFailed, match="no 4") as stopped:
        run(stage("map", name="enrich", policy=Policy("stop"), function=bad_id(4)))
    assert stopped.value.who == "enrich (map, record test/0/4)"
    assert isinstance(stopped.value.__cause__, ValueError)


def test_an_ephemeral_error_is_retried_and_forgotten() -> None:
    calls: list[int] = []

    def flaky(record: dict[str, Any]) -> dict[str, Any]:
        calls.append(record["id"])
        if record["id"] == 3 and calls.count(3) < 3:
            raise EphemeralError("not now")
        return record

    out, counts = run(stage("map", policy=Policy(retries=3, backoff=0), function=flaky))
    assert len(healthy(out)) == 10
    assert counts["map"] == Count(10, 10, retried=2)
    assert [r["id"] for r in healthy(out)] == list(range(10))


def test_an_ephemeral_error_that_stays_becomes_permanent_with_its_attempts() -> None:
    def down(record: dict[str, Any]) -> dict[str, Any]:
        if record["id"] == 3:
            raise TimeoutError("no answer")
        return record

    out, counts = run(stage("map", policy=Policy(retries=2, backoff=0), function=down))
    [pen] = failed(out)
    assert pen["error"]["attempt"] == 3
    assert counts["map"] == Count(10, 9, errors=1, retried=2)


def test_a_function_that_raises_stop_iteration_loses_no_record() -> None:
    def odd(record: dict[str, Any]) -> dict[str, Any]:
        if record["id"] == 4:
            raise StopIteration
        return record

    out, _ = run(stage("map", function=odd))
    assert [r["id"] for r in healthy(out)] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert len(failed(out)) == 1


def test_a_batch_function_is_tried_whole_then_on_halves() -> None:
    sizes: list[int] = []

    def picky(batch: pa.RecordBatch) -> pa.RecordBatch:
        sizes.append(batch.num_rows)
        if 4 in batch.column("id").to_pylist():
            raise ValueError("no 4")
        return batch

    out, counts = run(stage("map_batches", function=picky))
    assert sizes[0] == 10
    assert [r["id"] for r in healthy(out)] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert [p["id"] for p in failed(out)] == ["4"]
    assert [row["_pen"]["id"] for row in out.to_pylist()][:9] == [
        str(n) for n in range(10) if n != 4
    ]
    assert counts["map_batches"] == Count(10, 9, errors=1)


def test_a_batch_function_that_always_raises_makes_every_row_an_error() -> None:
    out, counts = run(stage("map_batches", function=lambda b: 1 / 0))
    assert len(failed(out)) == 10
    assert counts["map_batches"] == Count(10, 0, errors=10)


def test_a_batch_function_may_drop_rows_if_it_keeps_pen() -> None:
    out, _ = run(
        stage("map_batches", function=lambda b: b.filter(pc.greater(b["id"], 6))),
        stage("map", function=lambda r: r),
    )
    assert [row["_pen"]["id"] for row in out.to_pylist()] == ["7", "8", "9"]


def test_a_batch_function_may_tell_where_rows_came_from() -> None:
    def twice(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
        origin = [n for n in range(batch.num_rows) for _ in range(2)]
        return batch.take(pa.array(origin)).select(["id", "total"]), origin

    out, _ = run(stage("map_batches", function=twice), rows=orders(2))
    assert [row["_pen"]["id"] for row in out.to_pylist()] == ["0/0", "0/1", "1/0", "1/1"]
    assert [row["event_time"].microsecond for row in out.to_pylist()] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda b: b.slice(1).select(["id", "total"]), "without saying which are which"),
        (lambda b: 5, "did not return rows"),
        (lambda b: b.append_column("more", pa.array([1] * b.num_rows)), "more"),
        (lambda b: b.select(["id", "event_time", "_pen"]), "the column total is missing"),
        (lambda b: (b, [99] * b.num_rows), "do not fit"),
    ],
)
def test_a_batch_function_that_breaks_its_contract_is_told(function: Any, said: str) -> None:
    out, _ = run(stage("map_batches", function=function), rows=orders(2))
    assert len(failed(out)) == 2
    assert said in failed(out)[0]["error"]["message"]


def test_a_batch_function_may_change_columns_with_a_declared_schema() -> None:
    def narrow(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"double": pc.multiply(batch["id"], 2)})

    out, _ = run(stage("map_batches", function=narrow, schema="double long"), rows=orders(3))
    assert healthy(out) == [{"double": 0}, {"double": 2}, {"double": 4}]


def test_decode_errors_are_those_of_the_bad_record_only() -> None:
    out, counts = Chain([json_stage()], UNDECODED).run(
        undecoded([b'{"id": 1, "total": 1}', b"{", None, b'{"id": 2, "total": 2}'])
    )
    assert [r["id"] for r in healthy(out)] == [1, 2]
    [pen] = failed(out)
    assert pen["error"]["node"] == "decode"
    assert pen["error"]["original"] == b"{"
    assert counts["decode"] == Count(rows_in=4, rows_out=2, errors=1)


class Grumpy(Coder):
    """Answers late for a while, then raises on `bad`."""

    def __init__(self) -> None:
        self.calls = 0

    def schema(self) -> pa.Schema:
        return pa.schema([("text", pa.string())])

    def decode(self, values: pa.Array) -> Decoded:
        self.calls += 1
        if self.calls < 3:
            late = RowError(0, "registry is down", ephemeral=True)
            empty = pa.RecordBatch.from_pydict({"text": pa.array([], pa.string())})
            return Decoded(empty, pa.array([], pa.int32()), (late,))
        if b"bad" in values.to_pylist():
            raise RuntimeError("a bug in the coder")
        return Decoded(pa.RecordBatch.from_pydict({"text": values.cast(pa.string())}))

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        raise AssertionError


def test_a_coder_that_answers_late_or_raises_harms_only_the_guilty() -> None:
    chain = Chain(
        [Stage("d", "d", "decode", "grumpy", Grumpy(), policy=Policy(backoff=0))], UNDECODED
    )
    out, counts = chain.run(undecoded([b"a", b"bad", b"c"]))
    assert healthy(out) == [{"text": "a"}, {"text": "c"}]
    assert failed(out)[0]["error"]["kind"] == "RuntimeError"
    assert counts["d"].retried == 2


def test_encode_gives_one_value_per_record() -> None:
    out, _ = run(json_stage("encode"), rows=orders(2))
    assert out.schema.equals(UNDECODED)
    assert [json.loads(r["value"]) for r in healthy(out)] == [
        {"id": 0, "total": 0},
        {"id": 1, "total": 10},
    ]


def tags(*numbers: int) -> pa.RecordBatch:
    return undecoded([f"<order>{n}</order>".encode() for n in numbers])


def tag_stages(above: int) -> list[Stage]:
    coder = TagCoder()
    return [
        Stage("tag-decode", "f", "decode", "tag", coder),
        Stage("f", "f", "step", "tag-filter", TagFilter(above=above)),
        Stage("tag-encode", "f", "encode", "tag", coder),
    ]


def test_objects_live_between_their_decoder_and_encoder() -> None:
    out, counts = Chain(tag_stages(100), UNDECODED).run(tags(50, 150, 250))
    assert healthy(out) == [{"value": b"<order>150</order>"}, {"value": b"<order>250</order>"}]
    assert [row["_pen"]["id"] for row in out.to_pylist()] == ["1", "2"]
    assert counts["f"] == Count(3, 2)


def test_a_transform_over_objects_that_raises_loses_the_guilty_only() -> None:
    out, _ = Chain(tag_stages(0), UNDECODED).run(tags(1, 13, 2))
    assert len(healthy(out)) == 2
    [pen] = failed(out)
    assert pen["error"]["message"] == "bad luck"
    assert read_row(pen["error"]["input"]).to_pylist()[0]["value"] == b"<order>13</order>"


def test_bytes_that_are_no_objects_fail_at_the_decoder() -> None:
    out, _ = Chain(tag_stages(0), UNDECODED).run(undecoded([b"<a>1</b>", b"<a>1</a>", None]))
    assert healthy(out) == [{"value": b"<a>1</a>"}]
    assert [p["error"]["kind"] for p in failed(out)] == ["TagError"]


def test_objects_cannot_leave_a_chain() -> None:
    with pytest.raises(TypeMismatchError, match="cannot leave the process"):
        Chain(tag_stages(0)[:2], UNDECODED)


def test_stages_are_told_to_observers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_OBSERVER", f"{__name__}:observe")
    _SEEN.clear()
    run(stage("filter", function=lambda r: r["id"] < 3), stage("map", function=lambda r: r))
    assert _SEEN == [("stage-called", "filter", 10), ("stage-called", "map", 3)]


_SEEN: list[tuple[str, object, object]] = []


def observe(name: str, facts: dict[str, object]) -> None:
    _SEEN.append((name, facts["node"], facts["rows"]))


def test_an_empty_batch_passes_every_kind_of_stage() -> None:
    stages = [
        stage("map", function=fn.enrich),
        stage("filter", function=lambda r: True),
        stage("map_batches", function=fn.keep),
        stage("flat_map", function=lambda r: [r]),
        stage("concurrent_map", function=fn.enrich),
        stage("key_by", columns=["id"]),
        stage("sample", fraction=0.5),
        json_stage("encode"),
    ]
    out, _ = run(*stages, rows=orders(0))
    assert out.num_rows == 0
