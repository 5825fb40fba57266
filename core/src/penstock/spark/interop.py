"""Penstock's parts for Spark users who want no pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.contracts.envelope import TIMESTAMP, is_envelope
from penstock.contracts.errors import SchemaError, did_you_mean
from penstock.pipeline.chain import Chain
from penstock.spark.binding import context_of, read_schema, source_of
from penstock.spark.decoding import chained, decoder
from penstock.spark.failures import speaker
from penstock.spark.frames import pen_of
from penstock.spark.native import read_natively
from penstock.spark.types import arrow_schema, spark_schema


def read(
    spark: SparkSession,
    name: str,
    *,
    stream: bool = False,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> DataFrame:
    """A connector as a DataFrame: `pen.read(spark, "kafka", topic="orders")`.

    Where Spark's own readers give the same rows of a source's files, a batch read is theirs, of
    the files that are there now. With `columns` no others are read, and they cost nothing.

    Raises:
        SchemaError: the source has no such column.
    """
    from penstock.contracts.values import to_text

    given = {key: to_text(value) for key, value in options.items()}
    narrow = None if columns is None else _narrowed(read_schema(name, given), columns)
    if not stream:
        source, settings = source_of(name, given)
        if settings.coder is None and not settings.coder_options:
            ctx = context_of(name, settings)
            found = read_natively(spark, speaker(name), source, ctx, columns)
            if found is not None:
                return found if narrow is None else found.select(*_quoted(narrow.names))
    reader = (spark.readStream if stream else spark.read).format(f"penstock.{name}")
    if narrow is not None:
        reader = reader.schema(narrow)
    return reader.options(**given).load()


def _narrowed(schema: StructType, columns: Sequence[str]) -> StructType:
    for name in columns:
        if name not in schema.names:
            raise SchemaError(
                f"there is no column {name}",
                expected="some of " + ", ".join(schema.names),
                got=", ".join(columns),
                fix=did_you_mean(name, schema.names),
            )
    return StructType([schema[name] for name in columns])


def _quoted(names: Sequence[str]) -> list[str]:
    return [f"`{name}`" for name in names]


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
    meta = pen_of({name: F.col(name) for name in ("key", "headers", "id", "stamp")})
    return frame.select("value", "event_time", meta.alias("_pen"))


def _bare(frame: DataFrame) -> DataFrame:
    [time] = spark_schema(pa.schema([pa.field("event_time", TIMESTAMP)]))
    event_time = (
        F.col("event_time") if "event_time" in frame.columns else F.lit(None).cast(time.dataType)
    )
    return frame.select("value", event_time.alias("event_time"), pen_of({}).alias("_pen"))
