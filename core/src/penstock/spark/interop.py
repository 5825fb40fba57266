"""Penstock's parts for Spark users who want no pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.contracts.envelope import PEN_FIELD, TIMESTAMP, is_envelope
from penstock.contracts.errors import SchemaError
from penstock.pipeline.chain import Chain
from penstock.spark.decoding import chained, decoder
from penstock.spark.types import arrow_schema, spark_schema


def read(spark: SparkSession, name: str, *, stream: bool = False, **options: Any) -> DataFrame:
    """A connector as a DataFrame: `pen.read(spark, "kafka", topic="orders")`."""
    from penstock.contracts.values import to_text

    reader = spark.readStream if stream else spark.read
    given = {key: to_text(value) for key, value in options.items()}
    return reader.format(f"penstock.{name}").options(**given).load()


@frozen
class _Decoding:
    chain: Chain

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in rows:
            yield self.chain.apply(each)


def decode(frame: DataFrame, coder: str, **options: Any) -> DataFrame:
    """Decode the binary column `value` of any DataFrame with one of Penstock's coders.

    The result has the coder's columns, `event_time` and `_pen`; a record that cannot be decoded
    has null columns and its cause in `_pen.error`.

    Raises:
        DeclareError: the coder gives objects, which cannot leave a process.
        SchemaError: the frame has no binary column `value`.
    """
    stage = decoder(coder, options)
    schema = arrow_schema(frame.schema)
    index = schema.get_field_index("value")
    if index < 0 or not pa.types.is_binary(schema.field(index).type):
        raise SchemaError(
            "decode needs a binary column named value",
            expected="value binary",
            got=", ".join(f"{f.name} {f.type}" for f in schema),
            fix='rename it: frame.withColumnRenamed("body", "value")',
        )
    rows = _undecoded(frame) if is_envelope(schema) else _bare(frame)
    chain = chained(stage, arrow_schema(rows.schema))
    return rows.mapInArrow(_Decoding(chain), spark_schema(chain.schema))


def _undecoded(frame: DataFrame) -> DataFrame:
    kind: Any = spark_schema(pa.schema([PEN_FIELD]))["_pen"].dataType
    meta = F.struct(
        "key", "headers", "id", "stamp", F.lit(None).cast(kind["error"].dataType).alias("error")
    )
    return frame.select("value", "event_time", meta.alias("_pen"))


def _bare(frame: DataFrame) -> DataFrame:
    pen, time = spark_schema(pa.schema([PEN_FIELD, pa.field("event_time", TIMESTAMP)]))
    event_time = (
        F.col("event_time") if "event_time" in frame.columns else F.lit(None).cast(time.dataType)
    )
    empty = F.struct(
        *[F.lit(None).cast(part.dataType).alias(part.name) for part in pen.dataType]  # type: ignore[attr-defined]
    )
    return frame.select("value", event_time.alias("event_time"), empty.alias("_pen"))
