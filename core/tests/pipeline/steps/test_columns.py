"""rename, cast, event_time, explode, sample, key_by, validate: whole columns at a time."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from core.tests.pipeline import functions as fn
from core.tests.pipeline.rows import failed, healthy, stage, typed
from penstock.contracts import Columns
from penstock.contracts.envelope import PEN_FIELD, pen
from penstock.contracts.errors import OptionError, SchemaError
from penstock.pipeline.chain import Chain
from penstock.pipeline.plan import Stage

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("sizes", pa.list_(pa.field("element", pa.int64()))),
    ]
)
RECORDS: list[dict[str, Any]] = [
    {"id": 1, "name": "10", "sizes": [1, 2]},
    {"id": 2, "name": "x", "sizes": []},
    {"id": 3, "name": None, "sizes": None},
]


def run(*stages: Stage) -> pa.RecordBatch:
    rows = typed(RECORDS, SCHEMA)
    return Chain(stages, rows.schema).apply(rows)


def test_rename_gives_other_names() -> None:
    assert set(healthy(run(stage("rename", columns={"id": "ident"})))[0]) == {
        "ident",
        "name",
        "sizes",
    }


@pytest.mark.parametrize(
    ("columns", "said"),
    [({"idd": "x"}, "no column idd"), ({"id": "name"}, "two columns the name name")],
)
def test_rename_refuses_what_cannot_be(columns: dict[str, str], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        run(stage("rename", columns=columns))


def test_cast_makes_error_rows_of_values_that_do_not_fit() -> None:
    out = run(stage("cast", columns={"name": "int"}))
    assert [r["name"] for r in healthy(out)] == [10, None]
    assert [p["id"] for p in failed(out)] == ["1"]


def test_cast_refuses_an_unknown_type_and_column() -> None:
    with pytest.raises(SchemaError):
        run(stage("cast", columns={"name": "integerish"}))
    with pytest.raises(SchemaError, match="no column nam"):
        run(stage("cast", columns={"nam": "int"}))


def test_event_time_comes_from_seconds_text_or_a_timestamp() -> None:
    out = run(stage("event_time", field="id"))
    assert out.to_pylist()[0]["event_time"] == datetime.datetime(
        1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC
    )
    rows = typed([{"at": "2026-01-02T03:04:05Z"}], pa.schema([("at", pa.string())]))
    out = Chain([stage("event_time", field="at")], rows.schema).apply(rows)
    assert out.to_pylist()[0]["event_time"].day == 2


def test_event_time_refuses_a_column_without_a_time() -> None:
    with pytest.raises(SchemaError, match="cannot be taken from the column sizes"):
        run(stage("event_time", field="sizes"))


def test_explode_gives_a_row_for_each_element() -> None:
    out = run(stage("explode", column="sizes", into="size"))
    assert healthy(out) == [
        {"id": 1, "name": "10", "size": 1},
        {"id": 1, "name": "10", "size": 2},
    ]
    assert [row["_pen"]["id"] for row in out.to_pylist()] == ["0/0", "0/1"]


def test_explode_can_keep_rows_without_elements() -> None:
    out = run(stage("explode", column="sizes", keep_empty=True))
    assert [(r["id"], r["sizes"]) for r in healthy(out)] == [(1, 1), (1, 2), (2, None), (3, None)]


def test_explode_refuses_what_is_no_list() -> None:
    with pytest.raises(SchemaError, match="cannot take the column name apart"):
        run(stage("explode", column="name"))


def numbered(count: int, start: int = 0) -> pa.RecordBatch:
    return typed([{"n": n} for n in range(count)], pa.schema([("n", pa.int64())]), start)


def test_sample_keeps_about_its_fraction_and_the_same_records_again() -> None:
    rows = numbered(20_000)
    chain = Chain([stage("sample", fraction=0.25, seed=3)], rows.schema)
    kept = [r["n"] for r in healthy(chain.apply(rows))]
    assert 4_700 < len(kept) < 5_300
    halves = [chain.apply(rows.slice(0, 7_000)), chain.apply(rows.slice(7_000))]
    assert kept == [r["n"] for half in halves for r in healthy(half)]


@pytest.mark.parametrize("ids", [True, False], ids=["with-ids", "bare"])
def test_sample_needs_no_stamps(ids: bool) -> None:
    rows = numbered(20_000)
    names = pa.array([f"order-{n}" for n in range(20_000)]) if ids else None
    bare = rows.set_column(
        rows.schema.names.index("_pen"), PEN_FIELD, pen(20_000, **({"id": names} if ids else {}))
    )
    chain = Chain([stage("sample", fraction=0.25, seed=3)], bare.schema)
    kept = [r["n"] for r in healthy(chain.apply(bare))]
    assert 4_700 < len(kept) < 5_300
    halves = [chain.apply(bare.slice(0, 7_000)), chain.apply(bare.slice(7_000))]
    assert kept == [r["n"] for half in halves for r in healthy(half)]


def test_sample_with_another_seed_keeps_others() -> None:
    rows = numbered(1_000)
    one, other = (
        {
            r["n"]
            for r in healthy(
                Chain([stage("sample", fraction=0.5, seed=s)], rows.schema).apply(rows)
            )
        }
        for s in (1, 2)
    )
    assert one != other


@pytest.mark.parametrize(("fraction", "kept"), [(0.0, 0), (1.0, 100)])
def test_sample_has_true_ends(fraction: float, kept: int) -> None:
    rows = numbered(100)
    assert Chain([stage("sample", fraction=fraction)], rows.schema).apply(rows).num_rows == kept


def test_sample_refuses_more_than_all() -> None:
    with pytest.raises(OptionError, match="between 0 and 1"):
        stage("sample", fraction=1.5)


def keys(*stages: Stage) -> list[bytes | None]:
    return [row["_pen"]["key"] for row in run(*stages).to_pylist()]


def test_key_by_takes_columns_or_a_function() -> None:
    assert keys(stage("key_by", columns=["name"])) == [b"10", b"x", None]
    assert keys(stage("key_by", columns=["id"])) == [b"1", b"2", b"3"]
    assert keys(stage("key_by", columns=["id", "name"])) == [b'[1,"10"]', b'[2,"x"]', b"[3,null]"]
    assert keys(stage("key_by", function=lambda r: r["id"] % 2)) == [b"1", b"0", b"1"]


def test_key_by_refuses_both_neither_and_strangers() -> None:
    with pytest.raises(OptionError, match="columns or a function"):
        stage("key_by")
    with pytest.raises(OptionError, match="columns or a function"):
        stage("key_by", columns=["id"], function=fn.enrich)
    with pytest.raises(SchemaError, match="no column who"):
        run(stage("key_by", columns=["who"]))


def test_a_key_function_that_fails_fails_its_record() -> None:
    out = run(stage("key_by", function=lambda r: r["name"] + ""))
    assert [row["_pen"]["key"] for row in out.to_pylist()][:2] == [b"10", b"x"]
    assert [p["id"] for p in failed(out)] == ["2"]


def test_validate_sends_what_breaks_a_rule_to_the_dead_letters() -> None:
    out = run(stage("validate", required=["name"], function=lambda r: r["id"] != 2 or "two is bad"))
    assert [r["id"] for r in healthy(out)] == [1]
    assert {p["id"]: (p["error"]["kind"], p["error"]["message"]) for p in failed(out)} == {
        "1": ("InvalidRecord", "two is bad"),
        "2": ("InvalidRecord", "the column name is null"),
    }


@pytest.mark.parametrize(
    ("verdict", "good"), [(True, True), (None, True), (False, False), ("no", False)]
)
def test_a_rule_answers_with_true_false_or_a_sentence(verdict: Any, good: bool) -> None:
    out = run(stage("validate", function=lambda r: verdict))
    assert len(healthy(out)) == (3 if good else 0)


def test_validate_needs_a_rule_and_known_columns() -> None:
    with pytest.raises(OptionError, match="no rule"):
        stage("validate")
    with pytest.raises(SchemaError, match="no column nam"):
        run(stage("validate", required=["nam"]))


def test_columns_are_unknown_after_unknown_columns() -> None:
    for step in (
        stage("rename", columns={"a": "b"}),
        stage("cast", columns={"a": "int"}),
        stage("explode", column="a"),
    ):
        assert step.work.gives(Columns(None)) == Columns(None)
