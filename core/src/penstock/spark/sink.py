"""Any Sink as a Spark batch writer and stream writer."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from attrs import evolve
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from penstock.contracts.errors import WriteError
from penstock.contracts.sink import Batch, Receipt, Sink
from penstock.contracts.source import Context
from penstock.spark.failures import told
from penstock.spark.share import write_share


class ReceiptMessage(WriterCommitMessage):
    """A receipt on its way to the driver, with the query it belongs to."""

    def __init__(self, receipt: Receipt, query: str | None = None) -> None:
        self.receipt = receipt
        self.query = query


class _Writing:
    def __init__(
        self, who: str, sink: Sink, ctx: Context, given: pa.Schema, overwrite: bool
    ) -> None:
        self.who = who
        self.sink = sink
        self.ctx = ctx
        self.overwrite = overwrite
        with told(who, sink, "taking the schema", WriteError):
            self.schema = sink.accepts(given)

    def _finish(self, batch: Batch, messages: list[WriterCommitMessage | None]) -> None:
        receipts = receipts_of(messages)
        refused = sum(r.rows.num_rows for each in receipts for r in each.rejected)
        if refused:
            first = next(r for each in receipts for r in each.rejected)
            raise WriteError(
                f"{refused} rows were refused by the sink",
                who=self.who,
                got=first.errors[0],
                fix="mend them, or run a pipeline with dead letters",
            )
        with told(self.who, self.sink, "finishing the batch", WriteError):
            self.sink.finish(batch, receipts)

    def _discard(self, batch: Batch, messages: list[WriterCommitMessage | None]) -> None:
        with told(self.who, self.sink, "discarding the batch", WriteError):
            self.sink.discard(batch, receipts_of(messages))


def receipts_of(messages: Iterable[WriterCommitMessage | None]) -> list[Receipt]:
    """The receipts in Spark's messages, in the order of partitions."""
    found = [m.receipt for m in messages if isinstance(m, ReceiptMessage)]
    return sorted(found, key=lambda receipt: receipt.partition)


class BatchWriter(_Writing, DataSourceArrowWriter):
    """A batch write: batch 0 of a query that no other has."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        ctx = evolve(self.ctx, query=str(uuid.uuid4()))
        self.batch = Batch(ctx, 0, overwrite=self.overwrite)
        with told(self.who, self.sink, "beginning the batch", WriteError):
            self.sink.begin(self.batch)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ReceiptMessage:
        """One task's share."""
        share = write_share(self.who, self.sink, self.batch, self.schema, iterator)
        return ReceiptMessage(share.receipt)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish."""
        self._finish(self.batch, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks left."""
        self._discard(self.batch, messages)


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """A stream write; Spark makes one anew for each batch and tells the number to its tasks."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ReceiptMessage:
        """One task's share; an already finished batch is skipped."""
        batch = self._batch_here()
        with told(self.who, self.sink, "beginning the batch", WriteError):
            done = self.sink.done(batch)
        if done:
            for _ in iterator:
                continue
            return ReceiptMessage(Receipt(rows=0), query=None)
        share = write_share(self.who, self.sink, batch, self.schema, iterator)
        return ReceiptMessage(share.receipt, batch.ctx.query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Publish, unless all tasks found it done."""
        query = query_of(messages)
        if query is not None:
            self._finish(self._batch(batchId, query), messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what the tasks left."""
        query = query_of(messages)
        if query is not None:
            self._discard(self._batch(batchId, query), messages)

    def _batch_here(self) -> Batch:
        task = TaskContext.get()
        number = task.getLocalProperty("streaming.sql.batchId") if task else None
        query = task.getLocalProperty("sql.streaming.queryId") if task else None
        if number is None or query is None:
            raise WriteError("Spark did not tell the batch to its task", who=self.who)
        return self._batch(int(number), query)

    def _batch(self, number: int, query: str) -> Batch:
        return Batch(evolve(self.ctx, query=query), number)


def query_of(messages: Iterable[WriterCommitMessage | None]) -> str | None:
    """The query id that the tasks saw, since Spark does not tell the driver; None: all skipped."""
    return next((m.query for m in messages if isinstance(m, ReceiptMessage) and m.query), None)
