"""Files that Spark reads itself, in the columns that their source would have given."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.contracts.errors import DataLossError
from penstock.contracts.native import ReadsInSpark, SparkRead
from penstock.contracts.queue import QueueSource
from penstock.contracts.source import Context, Part, ReplayableSource
from penstock.pipeline.counts import Count, Counts
from penstock.spark.checkpoint import BatchLog
from penstock.spark.failures import told
from penstock.spark.frames import pen_of
from penstock.spark.fused import Fused
from penstock.spark.source import BatchReader, PlannedPart, all_parts
from penstock.spark.types import spark_schema

_PARTS = pa.schema([pa.field("number", pa.int32()), pa.field("part", pa.binary())])


def native_frame(spark: SparkSession, read: SparkRead, *, stamps: bool = True) -> DataFrame | None:
    """The rows of the files, with `_pen` if stamps are wanted.

    None if Spark does not see exactly these files: it passes over some names.
    """
    reader = spark.read.format(read.format).schema(spark_schema(read.schema))
    urls = [f"file://{path}" for path in read.paths]
    frame = reader.options(**read.options).load(urls)
    if sorted(frame.inputFiles()) != sorted(urls):
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
        parts = all_parts(source, ctx)
        found = source.in_spark(parts, stamps=stamps) if parts else None
    return None if found is None else native_frame(spark, found, stamps=stamps)


def _arranged(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """The columns of a pipeline's rows; one that the files lack (`event_time`) is null."""
    columns = []
    for field in spark_schema(schema):
        there = field.name in frame.columns
        kept = F.col(f"`{field.name}`") if there else F.lit(None).cast(field.dataType)
        columns.append(kept.alias(field.name))
    return frame.select(*columns)


@frozen
class Unread(Fused):
    """What a stream gives whose rows Spark reads: its parts, as they were planned. Picklable."""

    @property
    def schema(self) -> pa.Schema:
        """One row a part."""
        return _PARTS

    def hand_on(self, part: Part, index: int) -> pa.RecordBatch:
        """The row of a part."""
        columns = [pa.array([index], pa.int32()), pa.array([pickle.dumps(part)], pa.binary())]
        return pa.RecordBatch.from_arrays(columns, schema=_PARTS)


@frozen
class _OwnRead:
    reader: BatchReader
    parts: tuple[Part, ...]

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in rows:
            for index in each.column(0).to_pylist():
                yield from self.reader.read(PlannedPart(self.parts[index], index))


class NativeHead:
    """A source of a pipeline whose batches Spark reads where it sees the same rows, else we do.

    Args:
        reader: Our own, with nothing fused to it.
        node: Whose rows are counted.
    """

    def __init__(self, reader: BatchReader, node: str) -> None:
        self._reader = reader
        self._node = node
        self._read: tuple[list[Part], SparkRead] | None = None
        self.counts = Counts()

    def frame(self, batch: DataFrame, log: BatchLog) -> DataFrame:
        """The rows of the parts in a batch."""
        spark = batch.sparkSession
        rows = sorted(batch.collect(), key=lambda row: row.number)
        parts = [pickle.loads(row.part) for row in rows]
        self._read, self.counts = None, Counts()
        found = self._in_spark(parts) if parts else None
        frame = None
        if found is not None:
            spark.conf.set("spark.sql.files.maxPartitionBytes", str(found.split))
            spark.conf.set("spark.sql.files.openCostInBytes", str(1 << 20))
            spark.conf.set("spark.sql.files.minPartitionNum", str(found.tasks))
            frame = native_frame(spark, found)
            frame = frame and _arranged(frame, self._reader.finish.schema)
        log.fix_reader(self._node, "penstock" if frame is None else "Spark")
        if found is None or frame is None:
            made = spark.range(0, len(parts), 1, max(len(parts), 1))
            own = _OwnRead(self._reader, tuple(parts))
            return made.mapInArrow(own, spark_schema(self._reader.finish.schema))
        self._read = (parts, found)
        self.counts = Counts({self._node: Count(rows_out=found.rows or 0)})
        return frame

    def verify(self) -> None:
        """See that the files of the last batch are as they were when Spark was told of them."""
        read, self._read = self._read, None
        if read is not None and self._in_spark(read[0]) != read[1]:
            raise DataLossError(
                "a file has changed while Spark read it",
                who=self._reader.who,
                expected="files that nobody writes to any more",
                fix="put the file back; use min_age, stable or marker so that files still being "
                "written are not taken",
            )

    def _in_spark(self, parts: list[Part]) -> SparkRead | None:
        source = self._reader.source
        assert isinstance(source, ReadsInSpark)
        with told(self._reader.who, source, "looking into the files"):
            return source.in_spark(parts, stamps=True)
