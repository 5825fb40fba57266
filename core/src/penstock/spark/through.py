"""A reader that is its own writer: where nothing lies between them, no record enters the JVM.

The drain asks for it through a local property of its job. A task then gives its rows to the sink
itself and passes on one row, which carries its receipt in the way tallies travel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
from attrs import evolve, frozen
from pyspark import TaskContext
from pyspark.sql import DataFrame

from penstock.contracts.envelope import ERROR, pen
from penstock.contracts.sink import Batch
from penstock.spark.fused import Fused
from penstock.spark.shares import Share, WriteTask

ORDER = "penstock.write"
"""The local property that says which batch to write, and where dead letters go."""

RECEIPT = "penstock:receipt"


@frozen
class Order:
    """What a task must know beyond what was known when the query was planned."""

    batch: int
    partitions: int
    letters: str
    series: str

    def to_text(self) -> str:
        """As a property holds it."""
        return json.dumps([self.batch, self.partitions, self.letters, self.series])

    @classmethod
    def here(cls) -> Order | None:
        """The order of the job this task belongs to."""
        task = TaskContext.get()
        said = task.getLocalProperty(ORDER) if task else None
        return cls(*json.loads(said)) if said else None


@frozen
class Through(Fused):
    """A fused reader's stages, and the task that writes what they give. Picklable."""

    task: WriteTask

    def asked(self) -> bool:
        """Whether the drain wants the rows written here."""
        return Order.here() is not None

    def write(self, rows: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        """Write this task's share; the row that carries the receipt."""
        order = Order.here()
        assert order is not None
        key = Batch(self.task.batch.ctx, order.batch, partitions=order.partitions)
        task = evolve(self.task, batch=key, letters=order.letters, series=order.series)
        return receipt_row(task.run(rows), self.schema)


def receipt_row(share: Share, schema: pa.Schema) -> pa.RecordBatch:
    """One row of nulls, but for a share told in its `_pen.error`."""
    said = {"kind": RECEIPT, "message": share.to_text()}
    error = pa.array([{name: said.get(name) for name in ERROR.names}], ERROR)
    columns = [pen(1, error=error) if f.name == "_pen" else pa.nulls(1, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def shares_of(batch: DataFrame, order: Order) -> list[Share]:
    """Have the readers of a batch write it; what they did, in the order of partitions."""
    context = batch.sparkSession.sparkContext
    context.setLocalProperty(ORDER, order.to_text())
    try:
        found = batch.select("_pen.error.message").collect()
    finally:
        context.setLocalProperty(ORDER, None)  # type: ignore[arg-type]
    shares = [Share.from_text(row[0]) for row in found]
    return sorted(shares, key=lambda share: share.receipt.partition)
