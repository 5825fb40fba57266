"""DataFrames that enter a pipeline and leave it: Spark's own formats, and the user's frames.

What is read once enters through an empty stream that moves by one step: Spark's own log then
says whether it was read, and one query drains it together with whatever else there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.contracts.envelope import PEN, is_envelope
from penstock.contracts.errors import MaterialiseError, SchemaError, WriteError
from penstock.contracts.options import connector, option
from penstock.contracts.source import Context, Limit, Planner, Position, ReplayableSource
from penstock.pipeline.ends import SparkSink, SparkSource
from penstock.pipeline.kernels import retrying
from penstock.pipeline.plan import Stage
from penstock.pipeline.shapes import user_columns
from penstock.spark.failures import told
from penstock.spark.types import arrow_schema, spark_schema

_PEN_FIELDS = spark_schema(pa.schema(list(PEN)))
_ENVELOPE = ("key", "headers", "id", "stamp")


def loaded(who: str, source: SparkSource, spark: SparkSession) -> DataFrame:
    """A source's frame with `event_time` and `_pen`, as every step wants it.

    Raises:
        MaterialiseError: Spark cannot load it.
        SchemaError: a column that the options name is missing.
    """
    with told(who, source, "loading", MaterialiseError):
        frame = source.load(spark)
        return enveloped(frame, source)


def enveloped(frame: DataFrame, source: SparkSource) -> DataFrame:
    """The record's own columns, `event_time`, and `_pen` made of what the options name."""
    if is_envelope(arrow_schema(frame.schema)):
        meta = pen_of({name: F.col(name) for name in _ENVELOPE})
        return frame.select("value", "event_time", meta.alias("_pen"))
    if "_pen" in frame.columns:
        own = [name for name in frame.columns if name not in ("_pen", "event_time")]
        return frame.select(*_quoted(own), _event_time(frame, source), "_pen")
    _present(frame, source)
    given: dict[str, Column] = {}
    if source.key is not None:
        given["key"] = F.col(f"`{source.key}`").cast("binary")
    if source.id is not None:
        given["id"] = F.col(f"`{source.id}`").cast("string")
    if source.stamp is not None:
        origin, part, position = (F.col(f"`{name}`") for name in source.stamp)
        given["stamp"] = F.struct(
            origin.cast("string").alias("origin"),
            part.cast("string").alias("part"),
            position.cast("long").alias("position"),
        )
    own = [name for name in frame.columns if name != "event_time"]
    columns: list[Any] = _quoted(own)
    if source.value is not None:
        columns = [F.col(f"`{source.value}`").cast("binary").alias("value")]
    return frame.select(*columns, _event_time(frame, source), pen_of(given).alias("_pen"))


def _quoted(names: list[str]) -> list[Any]:
    return [F.col(f"`{name}`") for name in names]


def _event_time(frame: DataFrame, source: SparkSource) -> Column:
    name = source.event_time or ("event_time" if "event_time" in frame.columns else None)
    found = F.lit(None) if name is None else F.col(f"`{name}`")
    return found.cast("timestamp").alias("event_time")


def pen_of(given: dict[str, Column]) -> Column:
    """A `_pen` column; what is not given is null."""
    fields = [given.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in _PEN_FIELDS]
    return F.struct(*fields)


def with_original(frame: DataFrame) -> DataFrame:
    """The frame with its undecoded `value` in `_pen` too, where no source's bytes are yet."""
    found = F.coalesce("_pen.original", "value")
    return frame.withColumn("_pen", F.col("_pen").withField("original", found))


def _present(frame: DataFrame, source: SparkSource) -> None:
    named = [source.value, source.key, source.event_time, source.id, *(source.stamp or ())]
    for name in named:
        if name is not None and name not in frame.columns:
            raise SchemaError(
                f"there is no column {name}",
                expected="one of " + ", ".join(frame.columns),
                got=name,
            )


@connector
class Once(ReplayableSource):
    """An empty stream that moves by one step: the mark that something was read once."""

    rows: Any = option(doc="The schema of what is read once.")

    def schema(self) -> pa.Schema:
        """Of what stands in its place."""
        return self.rows

    def planner(self, ctx: Context) -> Planner:
        """One step."""
        return _OneStep()

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """Nothing."""
        return iter(())


class _OneStep(Planner):
    def initial(self) -> Position:
        return {"read": 0}

    def latest(self, after: Position, limit: Limit, until: Position | None = None) -> Position:
        return {"read": 1}

    def plan(self, start: Position, end: Position) -> list[Any]:
        return []


def written(who: str, stage: Stage, frame: DataFrame, batch: int) -> None:
    """Give one batch to Spark's writer or to the user's function; again if its error may pass.

    Raises:
        WriteError: it was not taken.
    """
    sink: SparkSink = stage.work
    with told(who, sink, "writing", WriteError, lambda: f"batch {batch}"):
        if sink.columns is not None:
            frame = frame.selectExpr(*sink.columns)
        retrying(lambda: sink.write(frame, batch), stage.policy)


def own_columns(frame: DataFrame) -> DataFrame:
    """Without what Penstock keeps for itself."""
    return frame.select(*_quoted(user_columns(arrow_schema(frame.schema)).names))
