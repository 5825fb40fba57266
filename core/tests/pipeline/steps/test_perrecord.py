"""map, filter, flat_map, peek: records as dicts or as the annotated class, and what comes back."""

from __future__ import annotations

import datetime
from enum import Enum
from typing import Any, TypedDict

import pyarrow as pa
import pytest
from attrs import evolve, frozen

from core.tests.pipeline import functions as fn
from core.tests.pipeline.rows import failed, healthy, stage, typed
from penstock.contracts import Bytes, Columns
from penstock.contracts.errors import SchemaError
from penstock.pipeline.chain import Chain
from penstock.pipeline.plan import Stage
from penstock.pipeline.steps.routes import OtherSide

ORDERS = pa.schema([("id", pa.int64()), ("total", pa.float64())])


def run(*stages: Stage, rows: pa.RecordBatch | None = None) -> pa.RecordBatch:
    rows = orders() if rows is None else rows
    return Chain(stages, rows.schema).apply(rows)


def orders(count: int = 3) -> pa.RecordBatch:
    return typed([{"id": n, "total": n * 10.0} for n in range(count)], ORDERS)


def test_a_function_without_annotations_gets_dicts_of_the_records_own_columns() -> None:
    seen: list[dict[str, Any]] = []
    run(stage("map", function=lambda r: seen.append(dict(r)) or r))
    assert seen == [{"id": n, "total": n * 10.0} for n in range(3)]


def test_an_annotated_function_gets_and_gives_its_classes() -> None:
    out = run(stage("map", function=fn.priced))
    assert healthy(out) == [{"id": n, "total": n * 10.0, "tax": n * 2.5} for n in range(3)]


def test_a_class_with_defaults_takes_what_is_there() -> None:
    rows = typed([{"name": "a"}], pa.schema([("name", pa.string())]))

    def count(line: fn.Line) -> fn.Line:
        return fn.Line(line.name, line.count + 1)

    assert healthy(run(stage("map", function=count), rows=rows)) == [{"name": "a", "count": 2}]


def test_a_class_may_ask_for_the_event_time() -> None:
    def later(record: fn.Stamped) -> fn.Stamped:
        return fn.Stamped(record.id, record.event_time + datetime.timedelta(days=1))

    out = run(stage("map", function=later))
    assert [row["event_time"].day for row in out.to_pylist()] == [2, 2, 2]


class Colour(Enum):
    RED = "red"


@frozen
class Inner:
    colour: Colour
    sizes: list[int]


@frozen
class Outer:
    inner: Inner
    tags: dict[str, int]
    note: str | None = None


def test_nested_classes_enums_lists_and_maps_come_and_go() -> None:
    schema = pa.schema(
        [
            ("inner", pa.struct([("colour", pa.string()), ("sizes", pa.list_(pa.int64()))])),
            ("tags", pa.map_(pa.string(), pa.int64())),
        ]
    )
    rows = typed([{"inner": {"colour": "red", "sizes": [1, 2]}, "tags": [("a", 1)]}], schema)
    seen: list[Outer] = []

    def look(record: Outer) -> Outer:
        seen.append(record)
        return record

    [record] = healthy(run(stage("map", function=look), rows=rows))
    assert seen == [Outer(Inner(Colour.RED, [1, 2]), {"a": 1})]
    assert record["inner"] == {"colour": "red", "sizes": [1, 2]}
    assert record["tags"] == [("a", 1)]
    assert record["note"] is None


class Short(TypedDict):
    id: int


def test_a_typed_dict_is_a_dict_of_its_keys() -> None:
    def shorten(record: Short) -> Short:
        return {"id": record["id"] + 1}

    assert healthy(run(stage("map", function=shorten))) == [{"id": n} for n in (1, 2, 3)]


def test_a_declared_schema_gives_the_columns() -> None:
    out = run(stage("map", function=lambda r: {"text": str(r["id"])}, schema="text string"))
    assert healthy(out) == [{"text": "0"}, {"text": "1"}, {"text": "2"}]


def test_a_missing_field_is_null() -> None:
    assert healthy(run(stage("map", function=lambda r: {"id": r["id"]})))[0]["total"] is None


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"id": 1, "totl": 2.0}, "a field totl that its output does not have"),
        ({"id": "one"}, "the field id has the wrong type"),
        ({"id": 2**70}, "the field id has the wrong type"),
        (None, "did not return a record"),
        ([1], "did not return a record"),
    ],
)
def test_a_wrong_result_fails_its_own_record_only(result: Any, said: str) -> None:
    out = run(stage("map", function=lambda r: result if r["id"] == 1 else r))
    assert [r["id"] for r in healthy(out)] == [0, 2]
    [pen] = failed(out)
    assert said in pen["error"]["message"]


def test_a_mistyped_field_comes_with_a_suggestion() -> None:
    out = run(stage("map", function=lambda r: {"totl": 1.0}))
    assert "did you mean 'total'?" in failed(out)[0]["error"]["message"]


def test_meta_shows_key_headers_id_and_event_time() -> None:
    seen: list[dict[str, Any]] = []
    out = run(stage("map", function=lambda r: seen.append(r) or r, meta=True))
    assert seen[1]["_pen"] == {"key": b"1", "headers": None, "id": "1"}
    assert seen[1]["event_time"].microsecond == 1
    assert healthy(out) == [{"id": n, "total": n * 10.0} for n in range(3)]


def test_a_function_may_set_the_event_time() -> None:
    when = datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC)
    out = run(stage("map", function=lambda r: {**r, "event_time": when}))
    assert [row["event_time"] for row in out.to_pylist()] == [when] * 3


def test_times_keep_their_microseconds_and_their_zone() -> None:
    schema = pa.schema(
        [
            ("at", pa.timestamp("us", tz="UTC")),
            ("naive", pa.timestamp("us")),
            ("far", pa.timestamp("us")),
        ]
    )
    at = datetime.datetime(2026, 1, 1, 23, 59, 59, 999_999, tzinfo=datetime.UTC)
    naive = datetime.datetime(1969, 12, 31, 23, 59, 59, 1)
    far = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
    records = [{"at": at, "naive": naive, "far": far}, {"at": None, "naive": None, "far": None}]
    seen: list[dict[str, Any]] = []
    out = run(
        stage("map", function=lambda r: seen.append(dict(r)) or r), rows=typed(records, schema)
    )
    assert seen == records
    assert healthy(out) == records


def test_filter_keeps_what_is_truthy() -> None:
    assert [r["id"] for r in healthy(run(stage("filter", function=lambda r: r["id"])))] == [1, 2]


def test_filter_that_raises_makes_an_error_row() -> None:
    out = run(stage("filter", function=lambda r: 1 / r["id"] > 0.6))
    assert [r["id"] for r in healthy(out)] == [1]
    assert [p["id"] for p in failed(out)] == ["0"]


def test_flat_map_numbers_the_children_of_a_record() -> None:
    out = run(stage("flat_map", function=lambda r: [r] * r["id"]))
    assert [r["id"] for r in healthy(out)] == [1, 2, 2]
    assert [row["_pen"]["id"] for row in out.to_pylist()] == ["1", "2/0", "2/1"]


def test_flat_map_takes_annotations_of_its_items() -> None:
    out = run(stage("flat_map", function=fn.halves), rows=orders(2))
    assert [r["total"] for r in healthy(out)] == [0.0, 0.0, 5.0, 5.0]


def test_flat_map_takes_generators_and_none() -> None:
    out = run(stage("flat_map", function=lambda r: (x for x in [r]) if r["id"] else None))
    assert [r["id"] for r in healthy(out)] == [1, 2]


def test_a_record_with_one_bad_child_fails_as_a_whole() -> None:
    out = run(stage("flat_map", function=lambda r: [r, {"id": "x"}] if r["id"] == 1 else [r]))
    assert [r["id"] for r in healthy(out)] == [0, 2]
    assert [p["id"] for p in failed(out)] == ["1"]


@pytest.mark.parametrize("result", [{"id": 1}, "text"])
def test_flat_map_refuses_one_record_where_several_are_wanted(result: Any) -> None:
    out = run(stage("flat_map", function=lambda r: result), rows=orders(1))
    assert "must return several records" in failed(out)[0]["error"]["message"]


def test_peek_changes_nothing() -> None:
    seen: list[int] = []
    out = run(stage("peek", function=lambda r: seen.append(r["id"]), limit=2))
    assert seen == [0, 1]
    assert [r["id"] for r in healthy(out)] == [0, 1, 2]


def test_peek_shows_records_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    run(stage("peek"), rows=orders(1))
    assert capsys.readouterr().err == '{"id": 0, "total": 0.0}\n'


def test_a_function_that_takes_no_record_is_refused() -> None:
    with pytest.raises(SchemaError, match="cannot be called with a record"):
        stage("map", function=fn.no_arguments).work.wants()


@frozen
class Odd:
    thing: object


def test_a_field_without_a_column_type_is_refused_by_name() -> None:
    def odd(record: Odd) -> Odd:
        return record

    with pytest.raises(SchemaError, match="the field thing of Odd"):
        stage("map", function=odd).work.wants()


def test_what_a_step_gives_follows_from_what_it_gets() -> None:
    assert stage("map", function=fn.enrich).work.gives(Bytes()) == Bytes()
    gives = stage("map", function=fn.priced).work.gives(Bytes())
    assert isinstance(gives, Columns)
    assert gives.schema is not None
    assert gives.schema.names == ["id", "total", "tax", "event_time"]


def test_the_side_that_does_not_tell_drops_a_failure_without_counting_it() -> None:
    def small(record: dict[str, Any]) -> bool:
        return bool(1 / record["id"] < 1)

    one = stage("branch", unless=small)
    quiet = evolve(one, work=OtherSide(unless=one.work.unless))
    rows = orders()
    out, counts = Chain([quiet], rows.schema).run(rows)
    assert [r["id"] for r in healthy(out)] == [1]
    assert failed(out) == []
    assert (counts["branch"].errors, counts["branch"].skipped) == (0, 0)
    out, counts = Chain([one], rows.schema).run(rows)
    assert len(failed(out)) == counts["branch"].errors == 1


@pytest.mark.parametrize("step", ["map", "filter", "flat_map", "concurrent_map"])
def test_meta_is_refused_for_records_that_are_no_dicts(step: str) -> None:
    with pytest.raises(SchemaError, match="cannot get event_time and _pen") as refused:
        stage(step, function=fn.priced, meta=True).work.wants()
    assert refused.value.got == "a parameter annotated with Order"


def test_meta_is_taken_for_typed_dicts() -> None:
    class Given(TypedDict):
        id: int

    seen: list[Any] = []

    def look(record: Given) -> Given:
        seen.append(record["_pen"]["id"])  # type: ignore[typeddict-item]
        return {"id": record["id"]}

    run(stage("map", function=look, meta=True))
    assert seen == ["0", "1", "2"]
