"""What happens to one batch, in this order, so that a kill anywhere loses and doubles nothing.

1. Every sink that has not finished the batch gets its rows written by tasks.
2. Dead letters are published under the batch's number.
3. Sinks finish in declared order, each recorded.
4. The function returns, and Spark writes its commit.
"""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
from attrs import evolve, frozen
from pyspark.sql import DataFrame

from penstock.contracts import points
from penstock.contracts.envelope import conform
from penstock.contracts.errors import WriteError
from penstock.contracts.sink import Batch, Receipt, Sink
from penstock.pipeline.chain import Chain
from penstock.pipeline.counts import Counts
from penstock.pipeline.plan import Plan, Segment, Stage
from penstock.registry import tell
from penstock.spark.checkpoint import BatchLog, Checkpoint
from penstock.spark.deadletters import DeadLetters
from penstock.spark.failures import speaker, told
from penstock.spark.materialise import Materialised
from penstock.spark.shares import PARTITIONS, RECEIPTS, Share, StagedShare, WriteTask
from penstock.spark.staging import Staged, stage
from penstock.spark.types import arrow_schema


class Stopped(Exception):
    """The pipeline is being stopped: this batch has not begun."""


@frozen
class Outcome:
    """What became of one sink's share: receipts to finish with, or nothing to do."""

    segment: Segment
    batch: Batch
    shares: tuple[Share, ...]


class Drain:
    """The function that Spark calls with each batch."""

    def __init__(
        self, plan: Plan, made: Materialised, checkpoint: Checkpoint, letters: DeadLetters
    ) -> None:
        self.plan = plan
        self.made = made
        self.checkpoint = checkpoint
        self.letters = letters
        self.totals = Counts()
        self.last: dict[str, Any] = {}
        self.error: BaseException | None = None
        self._gate = threading.Condition()
        self._busy = False
        self._held = False
        self._closed = False

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Drain one batch."""
        self._enter()
        try:
            self._drain(batch, number)
        except BaseException as error:
            self.error = error
            raise
        finally:
            with self._gate:
                self._busy = False
                self._gate.notify_all()

    def hold(self, within: float) -> bool:
        """Let no further batch begin; True once none is running."""
        with self._gate:
            self._held = True
            return self._gate.wait_for(lambda: not self._busy, within)

    def close(self) -> None:
        """Send away a batch that waits to begin."""
        with self._gate:
            self._closed = True
            self._gate.notify_all()

    def _enter(self) -> None:
        with self._gate:
            self._gate.wait_for(lambda: self._closed or not self._held)
            if self._closed:
                raise Stopped("the pipeline is stopped")
            self._busy = True

    def _drain(self, batch: DataFrame, number: int) -> None:
        points.reached("offsets-logged", batch=number)
        # Adaptive execution may change the number of tasks between a batch and its replay.
        batch.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")
        log = self.checkpoint.batch(number)
        sources = Sources(self, batch, number)
        outcomes = []
        for segment in self.plan.segments:
            if segment.runs in ("writer", "driver"):
                outcome = self._write(segment, sources, number, log)
                if outcome is not None:
                    outcomes.append(outcome)
        points.reached("tasks-written", batch=number)
        self._publish(number, outcomes, sources)
        for outcome in outcomes:
            self._finish(outcome, log)
        points.reached("sinks-finished", batch=number)
        self._count(number, outcomes, sources)
        self.checkpoint.sweep(number)

    def _write(
        self, segment: Segment, sources: Sources, number: int, log: BatchLog
    ) -> Outcome | None:
        stage_ = self.plan.members(segment)[-1]
        sink: Sink = stage_.work
        who = speaker(stage_.what)
        key = Batch(self.made.context(stage_.node), number)
        if log.finished(stage_.node):
            return None
        with told(who, sink, "beginning the batch", WriteError):
            if sink.begin(key):
                log.finish(stage_.node)
                return None
        writing = Writing(self, stage_, key, log)
        try:
            shares = writing.run(segment, sources)
        except BaseException:
            with told(who, sink, "discarding the batch", WriteError):
                sink.discard(key, [])
            raise
        return Outcome(segment, evolve(key, partitions=writing.partitions), tuple(shares))

    def _publish(self, number: int, outcomes: list[Outcome], sources: Sources) -> None:
        names = [n for staged in sources.staged.values() for n in staged.letters]
        names += [n for outcome in outcomes for share in outcome.shares for n in share.letters]
        self.letters.publish(number, names)
        points.reached("dead-letters-published", batch=number)

    def _finish(self, outcome: Outcome, log: BatchLog) -> None:
        stage_ = self.plan.members(outcome.segment)[-1]
        receipts: list[Receipt] = [share.receipt for share in outcome.shares]
        with told(speaker(stage_.what), stage_.work, "finishing the batch", WriteError):
            stage_.work.finish(outcome.batch, receipts)
        log.finish(stage_.node)
        points.reached("sink-finished", batch=outcome.batch.number, node=stage_.node)

    def _count(self, number: int, outcomes: list[Outcome], sources: Sources) -> None:
        counts = sum((s.counts for s in sources.staged.values()), Counts())
        for outcome in outcomes:
            counts = sum((share.counts for share in outcome.shares), counts)
        self.totals = self.totals + counts
        self.last = {"batch": number, "counts": counts.to_json()}
        tell("batch_done", pipeline=self.plan.graph.name, batch=number, counts=counts.to_json())


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
            self._frames = self._drain.made.frames(self._batch, self._fork)
        return self._frames[name]

    def _fork(self, segment: Segment, frame: DataFrame) -> DataFrame:
        """Several read this segment: stage it, so that all of them see the same rows."""
        if len(self._drain.plan.readers_of(segment)) < 2:
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
        shared = sources.staged.get(name)
        if shared is None:
            frame = sources.frame(name)
            shared = sources.staged.get(name)
        schema = shared.schema if shared is not None else arrow_schema(frame.schema)
        chain = made.chain(segment, schema)
        if self._must_settle(segment):
            shared, chain = sources.settled(segment, chain), None
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

    def _must_settle(self, segment: Segment) -> bool:
        """A sink that skips single tasks on a replay must meet the same rows in them."""
        promise = self._stage.work.promise()
        by_task = promise.replay == "idempotent" and promise.atomic != "batch"
        return by_task and not self._drain.plan.deterministic

    def _task(self, chain: Chain | None, schema: pa.Schema) -> WriteTask:
        stage_, sink = self._stage, self._stage.work
        with told(speaker(stage_.what), sink, "taking the schema", WriteError):
            accepted = sink.accepts(schema)
        return WriteTask(
            who=speaker(stage_.what),
            node=stage_.node,
            sink=sink,
            batch=self._key,
            chain=chain,
            schema=accepted,
            letters=str(self._drain.letters.folder),
            series=self._drain.letters.series,
        )

    def _collect(self, frame: DataFrame) -> list[Share]:
        partitions = frame._jdf.queryExecution().toRdd().getNumPartitions()
        self.partitions = int(partitions)
        self._log.fix_layout(self._stage.node, self.partitions)
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
