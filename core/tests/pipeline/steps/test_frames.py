"""Steps that are Spark's, on a real Spark: failed rows pass every one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock as pen
from core.tests.pipeline.rows import stage, typed
from penstock.contracts import Columns
from penstock.contracts.errors import OptionError, SchemaError
from penstock.pipeline.chain import Chain
from penstock.spark.types import spark_schema

pytestmark = pytest.mark.spark
SCHEMA = pa.schema([("id", pa.int64()), ("total", pa.float64())])


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    """Six rows, of which the one with id 3 has failed."""
    rows = typed([{"id": n, "total": n * 10.0} for n in range(6)], SCHEMA)
    chain = Chain([stage("map", function=lambda r: r if r["id"] != 3 else 1 / 0)], rows.schema)
    out = chain.apply(rows)
    return spark.createDataFrame(out.to_pylist(), spark_schema(chain.schema))


def ids(frame: DataFrame) -> list[int | None]:
    return sorted((row.id for row in frame.collect()), key=lambda n: (n is None, n))


def apply(what: str, frame: DataFrame, **options: Any) -> DataFrame:
    return stage(what, **options).work.apply(frame)  # type: ignore[no-any-return]


def test_where_keeps_what_is_true_and_what_has_failed(frame: DataFrame) -> None:
    assert ids(apply("where", frame, expression="total > 35")) == [4, 5, None]


def test_branch_gives_each_record_one_side(frame: DataFrame) -> None:
    assert ids(apply("branch", frame, when="nullif(id, 5) > 1")) == [2, 4, None]
    assert ids(apply("branch", frame, unless="nullif(id, 5) > 1")) == [0, 1, 5, None]


def test_select_computes_columns_and_keeps_what_penstock_needs(frame: DataFrame) -> None:
    made = apply("select", frame, columns=["id", "total * 2 AS twice"])
    assert made.columns == ["id", "twice", "event_time", "_pen"]
    own = apply("select", frame, columns=["id", "current_timestamp() AS event_time"])
    assert own.columns == ["id", "event_time", "_pen"]


def test_select_of_everything_holds_each_column_once(frame: DataFrame) -> None:
    made = apply("select", frame, columns=["*", "total * 2 AS twice"])
    assert made.columns == ["id", "total", "event_time", "twice", "_pen"]
    assert [row.twice for row in made.where("id = 2").collect()] == [40.0]
    assert [row._pen.error.node for row in made.where("id IS NULL").collect()] == ["map"]
    less = apply("select", frame, columns=["* EXCEPT (total)", "_pen.id AS name"])
    assert less.columns == ["id", "event_time", "name", "_pen"]


def test_select_refuses_two_columns_of_one_name(frame: DataFrame) -> None:
    for columns in (["*", "total"], ["*", "total + 1 AS id"]):
        with pytest.raises(SchemaError, match="two columns the name"):
            apply("select", frame, columns=columns)


@pytest.mark.parametrize(
    "column", ["explode(items) AS item", "id, POSEXPLODE_OUTER (items)", "stack(2, id, total)"]
)
def test_select_refuses_what_would_drop_or_double_failed_rows(column: str) -> None:
    with pytest.raises(OptionError, match="select makes one row of each") as refused:
        stage("select", columns=["id", column])
    assert "use the step explode" in str(refused.value)


def test_select_takes_a_column_that_is_called_like_such_a_function() -> None:
    stage("select", columns=["explode", "'explode(x)' AS text", "`stack(2)` AS n"])


@pytest.mark.parametrize("asked", ["rand() < 0.5", "at < current_timestamp", "id > uniform(0, 9)"])
def test_branch_refuses_a_predicate_that_may_answer_otherwise(asked: str) -> None:
    with pytest.raises(OptionError, match="take both sides, or none"):
        stage("branch", when=asked)
    with pytest.raises(OptionError, match="take both sides, or none"):
        stage("branch", unless=asked)


def test_apply_sees_no_failed_row_and_loses_none(frame: DataFrame) -> None:
    seen: list[int] = []

    def function(given: DataFrame) -> DataFrame:
        seen.append(given.count())
        return given.selectExpr("id + 10 AS id", "_pen")

    made = apply("apply", frame, function=function)
    assert seen == [5]
    assert ids(made) == [10, 11, 12, 14, 15, None]
    assert "event_time" in made.columns


def test_a_function_over_a_frame_must_keep_pen(frame: DataFrame) -> None:
    with pytest.raises(SchemaError, match="lost the column _pen"):
        apply("apply", frame, function=lambda given: given.select("id"))


def test_deduplicate_lets_each_id_pass_once(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flow = (
        pen.pipeline("once")
        .source("generator", rows=200)
        .decode("json", schema="id long, customer string, total double, at timestamp")
        .map(lambda r: {**r, "id": r["id"] // 2})
        .map(lambda r: r if r["id"] != 7 else 1 / 0, name="seven")
        .deduplicate("id")
        .sink("stdout", on="driver")
    )
    flow.run(tmp_path / "state", spark=spark)
    printed = [json.loads(line) for line in capfd.readouterr().out.splitlines() if line[:1] == "{"]
    assert sorted(r["id"] for r in printed) == [n for n in range(100) if n != 7]


def test_the_id_of_a_record_is_its_own_a_column_or_a_header(frame: DataFrame) -> None:
    for by in (None, ["id"], ["header:key", "id"]):
        key = stage("deduplicate", by=by).work.key()
        found = [row.k for row in frame.selectExpr(f"{key} AS k").collect()]
        assert len(set(found)) == 6


def test_a_name_that_could_break_out_of_an_expression_is_refused() -> None:
    with pytest.raises(OptionError, match="cannot use this name"):
        stage("deduplicate", by=["a`b"])


def test_select_knows_its_columns_where_they_are_plain() -> None:
    plain = stage("select", columns=["id", "`total` AS t"]).work.gives(Columns(SCHEMA))
    assert isinstance(plain, Columns)
    assert plain.schema is not None
    assert plain.schema.names == ["id", "t", "event_time"]
    whole = stage("select", columns=["*", "id AS number"]).work.gives(Columns(SCHEMA))
    assert isinstance(whole, Columns)
    assert whole.schema is not None
    assert whole.schema.names == ["id", "total", "number", "event_time"]
    assert stage("select", columns=["id + 1"]).work.gives(Columns(SCHEMA)) == Columns(None)
    with pytest.raises(SchemaError, match="select has no column nope"):
        stage("select", columns=["nope"]).work.gives(Columns(SCHEMA))
