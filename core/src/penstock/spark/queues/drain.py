"""A bounded batch read: take what is there out of the queue, then end.

A batch job has no commit that a source could wait for. A lease is acknowledged when Spark asks
for the rows after it; a job that fails later has lost what it was given.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.contracts.queue import Consumer, QueueSource
from penstock.contracts.source import Context, Limit
from penstock.spark.failures import speaker, told
from penstock.spark.patience import patiently
from penstock.spark.queues.options import QueueOptions
from penstock.spark.queues.parts import finished
from penstock.spark.source import Finish


class DrainReader(DataSourceReader):
    """One task per receiver; each takes messages until none are left."""

    def __init__(
        self, source: QueueSource, options: QueueOptions, ctx: Context, finish: Finish
    ) -> None:
        self.source = source
        self.options = options
        self.ctx = ctx
        self.finish = finish

    def partitions(self) -> list[InputPartition]:
        """Only numbers: planning may run more than once and must not receive."""
        return [InputPartition(number) for number in range(self.options.receivers)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On a worker: receive, hand over, acknowledge."""
        with told(speaker(self.ctx.node), self.source, "draining"):
            consumer = patiently(
                lambda: self.source.consumer(self.ctx, partition.value),
                within=self.options.retry_for,
            )
            try:
                yield from finished(self._drained(consumer), self.finish)
            finally:
                consumer.close()

    def _drained(self, consumer: Consumer) -> Iterator[pa.RecordBatch]:
        limit = self.options.limit()
        consumer.window(limit)
        left = consumer.depth()
        since = time.monotonic()
        while left is None or left > 0:
            room = limit if left is None else Limit(min(left, limit.rows or left), limit.bytes)
            lease = consumer.receive(room, min(0.5, self.options.quiet))
            if lease is None:
                if time.monotonic() - since > self.options.quiet:
                    return  # unknown depth, or other consumers took the rest
                continue
            since = time.monotonic()
            left = None if left is None else left - lease.rows.num_rows
            yield lease.rows
            lease.acknowledge()
