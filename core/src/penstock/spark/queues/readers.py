"""From a queue and its options to the reader that Spark gets."""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader

from penstock.contracts.errors import OptionError
from penstock.contracts.queue import QueueSource
from penstock.contracts.source import Context
from penstock.spark.failures import speaker
from penstock.spark.queues.drain import DrainReader
from penstock.spark.queues.optimistic import OptimisticReader
from penstock.spark.queues.options import QueueOptions
from penstock.spark.source import Finish


def stream_reader(
    source: QueueSource, options: QueueOptions, ctx: Context, finish: Finish
) -> DataSourceStreamReader:
    """A stream over a queue, in the declared delivery.

    Raises:
        OptionError: a folder is missing that the delivery needs.
    """
    if options.spool == "fill":
        from penstock.spark.queues.filling import FillReader

        return FillReader(source, options, ctx, finish)
    if options.delivery == "pessimistic":
        from penstock.spark.queues.pessimistic import PessimisticReader

        return PessimisticReader(source, options, ctx, finish)
    return OptimisticReader(source, options, ctx, finish)


def batch_reader(
    source: QueueSource, options: QueueOptions, ctx: Context, finish: Finish
) -> DataSourceReader:
    """A bounded read that takes what is there out of the queue.

    Raises:
        OptionError: without `drain=true`, because it cannot be undone; or with options that only a
            stream can keep.
    """
    if not options.drain:
        raise OptionError(
            "a batch read of a queue takes its messages for good: there is no commit to wait for",
            who=speaker(ctx.node),
            expected="drain=true",
            fix="add drain=true, or use readStream with trigger(availableNow=True)",
        )
    if options.delivery == "pessimistic" or options.state is not None:
        raise OptionError(
            "a batch read takes messages without a spool and remembers nothing of them",
            who=speaker(ctx.node),
            expected="drain=true without delivery=pessimistic and state",
            fix="drop them, or use readStream with trigger(availableNow=True), which keeps them",
        )
    return DrainReader(source, options, ctx, finish)
