"""How the rows of a batch reach the tasks that write them: straight from Spark, or staged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.contracts.envelope import conform
from penstock.contracts.sink import Batch
from penstock.pipeline.chain import Chain
from penstock.pipeline.layout import layout
from penstock.pipeline.plan import Segment, Stage
from penstock.spark.checkpoint import BatchLog
from penstock.spark.shares import (
    PARTITIONS,
    RECEIPTS,
    Share,
    StagedShare,
    WriteTask,
    write_task,
)
from penstock.spark.staging import Staged, stage
from penstock.spark.through import Order, shares_of
from penstock.spark.types import arrow_schema

if TYPE_CHECKING:
    from penstock.spark.drain import Drain


class Sources:
    """The rows that sinks of one batch read: straight from Spark, or staged once for all."""

    def __init__(self, drain: Drain, batch: DataFrame, number: int) -> None:
        self._drain = drain
        self._batch = batch
        self._number = number
        self._frames: dict[str, DataFrame] | None = None
        self.staged: dict[str, Staged] = {}

    @property
    def spark(self) -> Any:
        """The batch's own session."""
        return self._batch.sparkSession

    def frame(self, name: str) -> DataFrame:
        """The rows of a segment in this batch; behind a fork they are read from the stage."""
        if self._frames is None:
            self._frames = self._drain.made.frames(self._batch, self._number, self._fork)
        return self._frames[name]

    def _fork(self, segment: Segment, frame: DataFrame) -> DataFrame:
        """Where this segment is read more than once: stage it, so that all see the same rows."""
        if segment.name not in self._drain.plan.shared:
            return frame
        return self._stage(frame, None, segment.name).frame(self.spark)

    def settled(self, segment: Segment, chain: Chain | None) -> Staged:
        """What a sink will be given, staged, because another attempt might compute it otherwise."""
        return self._stage(self.frame(segment.inputs[0]), chain, f"{segment.name}.input")

    def _stage(self, frame: DataFrame, chain: Chain | None, name: str) -> Staged:
        drain = self._drain
        staged = stage(frame, chain, drain.checkpoint, drain.letters, self._number, name)
        self.staged[name] = staged
        return staged


class Writing:
    """The tasks that write one sink's share of one batch."""

    def __init__(self, drain: Drain, stage_: Stage, key: Batch, log: BatchLog) -> None:
        self._drain = drain
        self._stage = stage_
        self._key = key
        self._log = log
        self.partitions: int | None = None

    def run(self, segment: Segment, sources: Sources) -> list[Share]:
        """Write; the shares in the order of the tasks."""
        made, name = self._drain.made, segment.inputs[0]
        if segment.name == self._drain.plan.through:
            return self._through(sources.frame(name))
        shared = sources.staged.get(name)
        if shared is None:
            frame = sources.frame(name)
            shared = sources.staged.get(name)
        schema = shared.schema if shared is not None else arrow_schema(frame.schema)
        chain = made.chain(segment, schema)
        if self._stage.name in self._drain.plan.staged:
            shared, chain = self._settled(segment, sources, shared, chain), None
            schema = shared.schema
        elif chain is not None:
            schema = chain.schema
        task = self._task(chain, schema)
        if segment.runs == "driver":
            return [self._on_driver(task, sources, name, shared)]
        if shared is not None:
            count = len(shared.files)
            indexes = sources.spark.range(0, count, 1, max(count, 1))
            return self._collect(indexes.mapInArrow(StagedShare(shared.files, task), RECEIPTS))
        return self._collect(sources.frame(name).mapInArrow(task, RECEIPTS))

    def settle(self, segment: Segment, sources: Sources) -> Staged:
        """Only stage: what Spark itself will write, without failures and tallies."""
        name = segment.inputs[0]
        frame = sources.frame(name)
        shared = sources.staged.get(name)
        chain = self._drain.made.chain(segment, arrow_schema(frame.schema))
        return self._settled(segment, sources, shared, chain)

    def _settled(
        self, segment: Segment, sources: Sources, shared: Staged | None, chain: Chain | None
    ) -> Staged:
        """The share on disk; what a fork has staged already will do if nothing comes after it."""
        return shared if shared is not None and chain is None else sources.settled(segment, chain)

    def _task(self, chain: Chain | None, schema: pa.Schema) -> WriteTask:
        letters = self._drain.letters
        return write_task(
            self._stage, self._key, chain, schema, str(letters.folder), letters.series
        )

    def _through(self, batch: DataFrame) -> list[Share]:
        letters = self._drain.letters
        tasks = self._layout(batch)
        order = Order(self._key.number, tasks, str(letters.folder), letters.series)
        return shares_of(batch, order)

    def _layout(self, frame: DataFrame) -> int:
        """How many tasks will write, fixed before the first of them does."""
        self.partitions = int(frame._jdf.queryExecution().toRdd().getNumPartitions())
        if self._stage.work.promise().replay == "idempotent":
            dealt = layout(self._drain.plan, self._stage)
            self._log.fix_layout(self._stage.node, self.partitions, dealt)
        return self.partitions

    def _collect(self, frame: DataFrame) -> list[Share]:
        self._layout(frame)
        context = frame.sparkSession.sparkContext
        context.setLocalProperty(PARTITIONS, str(self.partitions))
        shares = [Share.from_text(row[0]) for row in frame.collect()]
        return sorted(shares, key=lambda share: share.receipt.partition)

    def _on_driver(
        self, task: WriteTask, sources: Sources, name: str, shared: Staged | None
    ) -> Share:
        frame = shared.frame(sources.spark) if shared is not None else sources.frame(name)
        schema = arrow_schema(frame.schema)
        rows = (conform(each, schema) for each in frame.toArrow().to_batches())
        return task.run(rows)
