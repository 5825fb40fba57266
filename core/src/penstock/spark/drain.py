"""What happens to one batch, in this order, so that a kill anywhere loses and doubles nothing.

1. Every sink that has not finished the batch gets its rows written by tasks.
2. Dead letters are published under the batch's number.
3. Sinks finish in declared order, each recorded; what Spark itself writes is written then.
4. Dead letters go to the sink the user named for them.
5. The function returns, and Spark writes its commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from attrs import evolve, frozen
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from penstock.contracts import points
from penstock.contracts.errors import WriteError
from penstock.contracts.sink import Batch, Receipt
from penstock.pipeline.counts import Count, Counts
from penstock.pipeline.ends import SparkSink
from penstock.pipeline.kernels import is_ephemeral, retrying, waits
from penstock.pipeline.plan import Plan, Segment, Stage
from penstock.registry import tell
from penstock.spark.checkpoint import BatchLog, Checkpoint
from penstock.spark.deadletters import DeadLetters
from penstock.spark.failures import from_spark, speaker, told
from penstock.spark.frames import own_columns, written
from penstock.spark.materialise import Materialised
from penstock.spark.poisoned import Poisoned, poisoned
from penstock.spark.session import settled
from penstock.spark.shares import Share
from penstock.spark.staging import Staged
from penstock.spark.targets import LetterTarget
from penstock.spark.writing import Sources, Writing

T = TypeVar("T")


class Stopped(Exception):
    """The pipeline is being stopped: this batch has not begun."""


@frozen
class Outcome:
    """What one sink will finish with: its tasks' shares, or the staged rows that Spark writes."""

    segment: Segment
    batch: Batch
    shares: tuple[Share, ...] = ()
    staged: Staged | None = None


class Drain:
    """The function that Spark calls with each batch."""

    def __init__(
        self, plan: Plan, made: Materialised, checkpoint: Checkpoint, letters: DeadLetters
    ) -> None:
        self.plan = plan
        self.made = made
        self.checkpoint = checkpoint
        self.letters = letters
        self.target = None
        if plan.dead_letters is not None:
            context = made.context(plan.dead_letters.node)
            self.target = LetterTarget(plan.dead_letters, letters, context)
        self.totals = Counts()
        self.last: dict[str, Any] = {}
        self.error: BaseException | None = None
        self.before_batch: Callable[[], None] = lambda: None
        self._aside = Poisoned()
        self._gate = threading.Condition()
        self._busy = False
        self._held = False
        self._closed = False

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Drain one batch."""
        try:
            self._enter()
            self._drain(batch, number)
        except BaseException as error:
            self.error = error
            raise
        finally:
            with self._gate:
                self._busy = False
                self._gate.notify_all()

    def hold(self, within: float | None) -> bool:
        """Let no further batch begin; True once none is running."""
        with self._gate:
            self._held = True
            return self._gate.wait_for(lambda: not self._busy, within)

    def close(self) -> None:
        """Send away a batch that waits to begin, with `Stopped`."""
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
        self.before_batch()
        tell("batch_begun", pipeline=self.plan.graph.name, batch=number)
        settled(batch.sparkSession.conf)
        log = self.checkpoint.batch(number)
        sources = Sources(self, batch, number)
        outcomes = []
        for segment in self.plan.segments:
            if segment.runs in ("writer", "driver"):
                outcome = self._write(segment, sources, number, log)
                if outcome is not None:
                    outcomes.append(outcome)
        self.made.verify()
        points.reached("tasks-written", batch=number)
        self._publish(number, outcomes, sources)
        for outcome in outcomes:
            self._finish(outcome, log, sources)
        if self.target is not None:
            self.target.deliver(number, log, sources.spark)
        points.reached("sinks-finished", batch=number)
        self._count(number, outcomes, sources)
        self.checkpoint.sweep(number)

    def _write(
        self, segment: Segment, sources: Sources, number: int, log: BatchLog
    ) -> Outcome | None:
        stage_ = self.plan.members(segment)[-1]
        key = Batch(self.made.context(stage_.node), number)
        if log.finished(stage_.node):
            return None
        writing = Writing(self, stage_, key, log)
        if isinstance(stage_.work, SparkSink):
            return Outcome(segment, key, staged=writing.settle(segment, sources))
        if self._patiently(stage_, "beginning the batch", lambda: stage_.work.begin(key)):
            log.finish(stage_.node)
            return None
        shares = self._shares(stage_, key, lambda: writing.run(segment, sources))
        return Outcome(segment, evolve(key, partitions=writing.partitions), tuple(shares))

    def _shares(self, stage_: Stage, key: Batch, run: Callable[[], list[Share]]) -> list[Share]:
        """Have the tasks write; once more where only the driver can, because a share was large."""
        pauses = waits(stage_.policy)
        for pause in [*pauses, None]:
            try:
                return run()
            except BaseException as error:
                with told(speaker(stage_.what), stage_.work, "discarding the batch", WriteError):
                    stage_.work.discard(key, [])
                if pause is None or not _may_pass(error):
                    raise
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _patiently(self, stage_: Stage, doing: str, call: Callable[[], T]) -> T:
        """A call to a sink on the driver, tried again while its error may pass."""
        with told(speaker(stage_.what), stage_.work, doing, WriteError):
            return retrying(call, stage_.policy)[0]

    def _publish(self, number: int, outcomes: list[Outcome], sources: Sources) -> None:
        names = {f"{name} staged": list(s.letters) for name, s in sources.staged.items()}
        aside = self._aside = poisoned(self.made.queues(), self.letters, number)
        names |= aside.files
        for outcome in outcomes:
            if outcome.staged is None:
                files = [name for share in outcome.shares for name in share.letters]
                names[outcome.batch.ctx.node] = files
        self.letters.publish(number, names)
        aside.published()
        points.reached("dead-letters-published", batch=number)

    def _finish(self, outcome: Outcome, log: BatchLog, sources: Sources) -> None:
        stage_ = self.plan.members(outcome.segment)[-1]
        if outcome.staged is not None:
            frame = outcome.staged.frame(sources.spark)
            if stage_.work.columns is None:
                frame = own_columns(frame)
            written(speaker(stage_.what), stage_, frame, outcome.batch.number)
        else:
            receipts: list[Receipt] = [share.receipt for share in outcome.shares]
            self._patiently(
                stage_,
                "finishing the batch",
                lambda: stage_.work.finish(outcome.batch, receipts),
            )
        log.finish(stage_.node)
        points.reached("sink-finished", batch=outcome.batch.number, node=stage_.node)

    def _count(self, number: int, outcomes: list[Outcome], sources: Sources) -> None:
        counts = sum((s.counts for s in sources.staged.values()), self.made.counted())
        lost = {node: Count(errors=count) for node, count in self._aside.counts.items()}
        counts = counts + Counts(lost)
        for outcome in outcomes:
            counts = sum((share.counts for share in outcome.shares), counts)
            if outcome.staged is not None:
                taken = Count(rows_in=outcome.staged.rows)
                counts = counts + Counts({outcome.batch.ctx.node: taken})
        self.totals = self.totals + counts
        self.last = {"batch": number, "counts": counts.to_json()}
        tell("batch_done", pipeline=self.plan.graph.name, batch=number, counts=counts.to_json())


def _may_pass(error: BaseException) -> bool:
    """Whether what failed on a worker or here may work on another try."""
    return is_ephemeral(from_spark(error) if isinstance(error, PySparkException) else error)
