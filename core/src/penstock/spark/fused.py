"""A source with the Python stages that follow it, as one format made for one pipeline.

The class travels whole (cloudpickle), functions and options inside: nothing of it shows in a
plan or an option.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, field, frozen
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from penstock.contracts.envelope import ERROR, PEN, PEN_FIELD, is_envelope, pen, undecoded
from penstock.contracts.queue import QueueSource
from penstock.contracts.source import Context, ReplayableSource
from penstock.pipeline.chain import Chain, StageFailed
from penstock.pipeline.counts import Count, Counts
from penstock.pipeline.graph import Policy
from penstock.spark.source import BatchReader, StreamReader
from penstock.spark.tallies import tally
from penstock.spark.types import spark_schema


@frozen
class Fused:
    """What happens to a source's rows before Spark sees them. Picklable."""

    node: str
    chain: Chain
    policy: Policy = field(factory=Policy, kw_only=True)

    @property
    def schema(self) -> pa.Schema:
        """What leaves the reader."""
        return self.chain.schema

    def run(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Counts]:
        """The rows after the last fused stage, and what each stage counted."""
        if is_envelope(rows.schema):
            given, count = undecoded(rows), Count(rows_out=rows.num_rows)
        else:
            given, count = read_at(self.node, rows, self.policy)
        done, counts = self.chain.run(given)
        return done, counts + Counts({self.node: count})

    def tally(self, counts: Counts) -> pa.RecordBatch:
        """The row that carries a part's counts to the tasks that write."""
        return tally(counts, self.schema)

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows and their tally in one batch, for readers that see batches one by one."""
        done, counts = self.run(rows)
        return pa.concat_batches([done, self.tally(counts)])


def read_at(node: str, rows: pa.RecordBatch, policy: Policy) -> tuple[pa.RecordBatch, Count]:
    """A source's rows; what becomes of those it could not read is the node's policy.

    Raises:
        StageFailed: there is one, and the policy says stop.
    """
    at = rows.schema.get_field_index("_pen")
    error = rows.column(at).field("error") if at >= 0 else None
    if error is None or error.null_count == len(error):
        return rows, Count(rows_out=rows.num_rows)
    bad = len(error) - error.null_count
    count = Count(rows_out=rows.num_rows - bad)
    if policy.action == "stop":
        first = error.drop_null()[0].as_py()
        raise StageFailed(
            f"a record could not be read: {first['kind']}: {first['message']}",
            who=node,
            fix='mend the record, or declare on_error="dead-letter" for the source',
        )
    if policy.action == "skip":
        return rows.filter(pc.is_null(error)), evolve(count, skipped=bad)
    return rows.set_column(at, PEN_FIELD, _named(node, rows.column(at))), evolve(count, errors=bad)


def _named(node: str, meta: pa.StructArray) -> pa.StructArray:
    """Error rows that name the node which their source is in this pipeline."""
    error = meta.field("error")
    told = {name: error.field(name) for name in ERROR.names} | {"node": pa.repeat(node, len(error))}
    named = pa.StructArray.from_arrays(
        list(told.values()), fields=list(ERROR), mask=error.is_null()
    )
    return pen(len(error), **{f.name: meta.field(f.name) for f in PEN} | {"error": named})


def fused_format(
    format: str,
    who: str,
    source: ReplayableSource | QueueSource,
    ctx: Context,
    finish: Fused,
    settings: Any,
) -> type[DataSource]:
    """A DataSource class for one source of one pipeline, to be registered under `format`."""

    class PipelineSource(DataSource):
        """One source of a pipeline with its fused stages."""

        @classmethod
        def name(cls) -> str:
            return format

        def schema(self) -> StructType:
            return spark_schema(finish.schema)

        def reader(self, schema: StructType) -> DataSourceReader:
            if isinstance(source, QueueSource):
                from penstock.spark import queues

                return queues.batch_reader(source, settings, ctx, finish)
            return BatchReader(who, source, ctx, finish, settings)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            if isinstance(source, QueueSource):
                from penstock.spark import queues

                return queues.stream_reader(source, settings, ctx, finish)
            return StreamReader(who, source, ctx, finish, settings)

    return PipelineSource
