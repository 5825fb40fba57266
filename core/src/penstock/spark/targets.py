"""Dead letters on their way to the sink the user named, besides the files under the checkpoint.

This comes after all sinks have finished: the letters of a batch can no longer change then,
whatever is killed. One writer on the driver takes them all, so that the layout never changes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import evolve, frozen
from pyspark.sql import SparkSession

from penstock.contracts import points
from penstock.contracts.envelope import UNDECODED, pen
from penstock.contracts.errors import WriteError
from penstock.contracts.sink import Batch, Receipt, Sink
from penstock.contracts.source import Context
from penstock.pipeline.ends import SparkSink
from penstock.pipeline.kernels import retrying
from penstock.pipeline.letter import LETTER
from penstock.pipeline.passes.letters import takes_columns
from penstock.pipeline.passes.resolve import coder_of
from penstock.pipeline.plan import Stage
from penstock.spark.checkpoint import BatchLog
from penstock.spark.deadletters import DeadLetters
from penstock.spark.failures import speaker, told
from penstock.spark.frames import written
from penstock.spark.share import write_share


@frozen
class LetterTarget:
    """The sink that gets every batch's dead letters, once the batch is through."""

    stage: Stage
    letters: DeadLetters
    context: Context

    def deliver(self, number: int, log: BatchLog, spark: SparkSession) -> None:
        """Write the letters that a batch has published, unless that was done.

        Raises:
            WriteError: the sink did not take them; they stay in the checkpoint's files.
        """
        files = [str(path) for path in self.letters.of(number)]
        if not files or log.finished(self.stage.node):
            return
        if isinstance(self.stage.work, SparkSink):
            table = pa.concat_tables([pq.read_table(file) for file in files])
            frame = spark.createDataFrame(table)
            written(speaker(self.stage.what), self.stage, frame, number)
        else:
            self._write(Batch(self.context, number, partitions=1), files)
        log.finish(self.stage.node)
        points.reached("dead-letters-delivered", batch=number)

    def _write(self, batch: Batch, files: list[str]) -> None:
        sink: Sink = self.stage.work
        who, policy = speaker(self.stage.what), self.stage.policy
        with told(who, sink, "beginning the dead letters", WriteError):
            if retrying(lambda: sink.begin(batch), policy)[0]:
                return
        plain = takes_columns(sink)
        schema = sink.accepts(LETTER if plain else UNDECODED)
        rows = _rows(files) if plain else map(as_bytes, _rows(files))
        receipt = write_share(who, sink, batch, schema, rows, policy).receipt
        self._refuse(who, receipt)
        with told(who, sink, "finishing the dead letters", WriteError):
            retrying(lambda: sink.finish(batch, [evolve(receipt, partition=0)]), policy)

    def _refuse(self, who: str, receipt: Receipt) -> None:
        if receipt.rejected:
            refused = sum(each.rows.num_rows for each in receipt.rejected)
            raise WriteError(
                f"the sink for dead letters refused {refused} of them",
                who=who,
                got=receipt.rejected[0].errors[0],
                fix="they wait under the checkpoint; mend the sink, or name another",
            )


def _rows(files: list[str]) -> Iterator[pa.RecordBatch]:
    for file in files:
        with pq.ParquetFile(file) as letters:
            yield from letters.iter_batches()


def as_bytes(letters: pa.RecordBatch) -> pa.RecordBatch:
    """Letters for a sink that takes bytes: JSON, with the record's key, headers and time."""
    coder = coder_of("json", {"schema": letters.schema}, "dead letters", encode=True)
    values = coder.encode(letters).values.cast(pa.binary())
    meta = pen(
        letters.num_rows,
        key=letters.column("key"),
        headers=letters.column("headers"),
        id=letters.column("letter"),
        stamp=letters.column("stamp"),
    )
    times = letters.column("event_time")
    return pa.RecordBatch.from_arrays([values, times, meta], schema=UNDECODED)
