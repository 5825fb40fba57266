"""Files that Spark reads itself, in the columns that their source would have given."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.contracts.native import ReadsInSpark, SparkRead
from penstock.contracts.queue import QueueSource
from penstock.contracts.source import Context, ReplayableSource
from penstock.spark.failures import told
from penstock.spark.frames import pen_of
from penstock.spark.types import spark_schema


def native_frame(spark: SparkSession, read: SparkRead, *, stamps: bool = True) -> DataFrame | None:
    """The rows of the files, with `_pen` if stamps are wanted.

    None if Spark does not see exactly these files: it passes over some names.
    """
    reader = spark.read.format(read.format).schema(spark_schema(read.schema))
    frame = reader.options(**read.options).load(list(read.paths))
    if sorted(frame.inputFiles()) != sorted(f"file://{path}" for path in read.paths):
        return None
    own = [F.expr(text).alias(name) for name, text in read.columns.items()]
    if not stamps:
        # A projection costs where the reader's rows could be passed on as they are.
        plain = [text.strip("`") for text in read.columns.values()] == frame.columns
        return frame if plain else frame.select(*own)
    assert read.stamp is not None
    stamp = F.struct(
        F.expr(read.stamp.origin).alias("origin"),
        F.expr(read.stamp.part).alias("part"),
        F.expr(read.stamp.position).alias("position"),
    )
    return frame.select(*own, pen_of({"stamp": stamp}).alias("_pen"))


def read_natively(
    spark: SparkSession,
    who: str,
    source: ReplayableSource | QueueSource,
    ctx: Context,
    columns: Sequence[str] | None = None,
) -> DataFrame | None:
    """All that is there now, read by Spark; None if the source's own reader is to be asked."""
    stamps = columns is None or bool({"_pen", "stamp"} & set(columns))
    if not isinstance(source, ReplayableSource) or not isinstance(source, ReadsInSpark):
        return None
    if not source.reads_in_spark(stamps=stamps):
        return None
    with told(who, source, "planning"):
        planner = source.planner(ctx)
        try:
            parts = planner.plan(planner.initial(), planner.final())
        finally:
            planner.close()
        found = source.in_spark(parts, stamps=stamps) if parts else None
    return None if found is None else native_frame(spark, found, stamps=stamps)
