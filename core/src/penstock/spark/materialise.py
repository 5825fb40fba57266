"""From an analysed plan to one streaming frame, and to the frames of each batch.

The sources (with what is fused into them) and the steps that keep state are streaming; all the
rest is built anew over each batch, where sorting is allowed and the batch's number is known.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import evolve, fields, frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.contracts.delivery import ReadOptions, settings_class
from penstock.contracts.envelope import UNDECODED, is_envelope
from penstock.contracts.errors import MaterialiseError
from penstock.contracts.queue import QueueSource
from penstock.contracts.sink import Batch
from penstock.contracts.source import Context
from penstock.pipeline.chain import Chain
from penstock.pipeline.counts import Counts
from penstock.pipeline.ends import SparkSource
from penstock.pipeline.graph import Settings
from penstock.pipeline.plan import MergeSort, Plan, Segment, Split, Stage
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.failures import speaker, told
from penstock.spark.frames import Once, loaded, with_original
from penstock.spark.fused import Fused, fused_format
from penstock.spark.native import NativeHead, Unread
from penstock.spark.settling import settle
from penstock.spark.shares import write_task
from penstock.spark.source import BatchReader
from penstock.spark.through import Through
from penstock.spark.types import arrow_schema, spark_schema

_FROM = "_pen_from"


@frozen
class ChainTask:
    """A chain inside `mapInArrow`, for Python stages between Spark's."""

    chain: Chain

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Each batch through the chain; counts travel as tallies."""
        from penstock.spark.tallies import tally

        settle()
        total: Any = None
        for each in rows:
            done, counts = self.chain.run(each)
            total = counts if total is None else total + counts
            if done.num_rows:
                yield done
        if total is not None:
            yield tally(total, self.chain.schema)


class Materialised:
    """A plan over one Spark session."""

    def __init__(self, plan: Plan, spark: SparkSession, checkpoint: Checkpoint, query: str) -> None:
        self.plan = plan
        self.spark = spark
        self.checkpoint = checkpoint
        self.query = query
        self._streaming: dict[str, DataFrame] = {}
        self._once: dict[str, DataFrame] = {}
        self._native: dict[str, NativeHead] = {}
        for segment in plan.segments:
            if segment.runs == "reader":
                self._streaming[segment.name] = self._read(segment)
            elif segment.streaming:
                self._streaming[segment.name] = self._apply(segment, self._streaming)

    def context(self, node: str) -> Context:
        """Who a node's connector is asked as."""
        return Context(
            pipeline=self.plan.graph.name,
            node=node,
            query=self.query,
            state=self.checkpoint.node(node),
        )

    def queues(self) -> dict[str, str]:
        """The state folders of the nodes that read queues."""
        found = [stage.node for stage in self.plan if isinstance(stage.work, QueueSource)]
        return {node: self.checkpoint.node(node) for node in found}

    def stream(self) -> DataFrame:
        """The one streaming frame that is drained."""
        heads = self._heads()
        if len(heads) == 1:
            return self._streaming[heads[0]]
        frames = []
        for index, name in enumerate(heads):
            columns = [F.lit(index).alias(_FROM)]
            for other_index, other in enumerate(heads):
                frame = self._streaming[other]
                here = F.struct("*") if other == name else F.lit(None).cast(frame.schema)
                columns.append(here.alias(f"s{other_index}"))
            frames.append(self._streaming[name].select(*columns))
        union = frames[0]
        for frame in frames[1:]:
            union = union.union(frame)
        return union

    def _heads(self) -> list[str]:
        """The streaming segments that something outside of the streaming part reads."""
        streaming = self._streaming
        heads = []
        for segment in self.plan.segments:
            if segment.name not in streaming:
                continue
            readers = self.plan.readers_of(segment)
            if not readers or any(reader.name not in streaming for reader in readers):
                heads.append(segment.name)
        return heads

    def frames(
        self, batch: DataFrame, number: int, forked: Callable[[Segment, DataFrame], DataFrame]
    ) -> dict[str, DataFrame]:
        """The frames of one batch by segment, for all segments that end in no sink.

        What is read once is all in the first batch. Each goes through `forked`, which may put a
        staged copy in its place.
        """
        heads = self._heads()
        if len(heads) == 1:
            found = {heads[0]: batch}
        else:
            found = {
                name: batch.where(F.col(_FROM) == index).select(f"s{index}.*")
                for index, name in enumerate(heads)
            }
        for name, head in self._native.items():
            found[name] = head.frame(found[name], self.checkpoint.batch(number))
        if number == 0:
            found |= self._once
        for segment in self.plan.segments:
            if segment.name not in self._streaming and segment.runs == "spark":
                found[segment.name] = self._apply(segment, found)
            if segment.name in found:
                found[segment.name] = forked(segment, found[segment.name])
        return found

    def counted(self) -> Counts:
        """The rows of the last batch that Spark read itself, which no reader of ours counted."""
        return sum((head.counts for head in self._native.values()), Counts())

    def verify(self) -> None:
        """See that the files Spark has read are still those of the batch.

        Raises:
            DataLossError: one has changed under its hands.
        """
        for head in self._native.values():
            head.verify()

    def chain(self, segment: Segment, schema: pa.Schema) -> Chain | None:
        """The Python stages of a segment over rows of a schema; None if it has none."""
        stages = self.plan.chain(segment)
        return self._chain(stages, stages[-1], schema) if stages else None

    def _chain(self, stages: Sequence[Stage], last: Stage, schema: pa.Schema) -> Chain:
        return Chain(stages, schema, carries=last.name in self.plan.carried)

    def _read(self, segment: Segment) -> DataFrame:
        stage = self.plan.members(segment)[0]
        who, source = speaker(stage.what), stage.work
        if isinstance(source, SparkSource):
            return self._from_spark(stage, source, who)
        with told(who, source, "finding the schema"):
            schema = source.schema()
        given = UNDECODED if is_envelope(schema) else schema
        stages = self.plan.chain(segment)
        chain = self._chain(stages, stages[-1] if stages else stage, given)
        finish = Fused(stage.name, chain, policy=stage.policy)
        if self.plan.through is not None:
            finish = self._through(finish)
        if stage.name in self.plan.native:
            ctx, settings = self.context(stage.node), self._settings(stage, segment)
            head = NativeHead(BatchReader(who, source, ctx, finish, settings), stage.name)
            self._native[segment.name] = head
            finish = Unread(finish.node, finish.chain)
        return self._stream(stage, source, finish, self._settings(stage, segment))

    def _through(self, finish: Fused) -> Through:
        """The reader with the writer in it."""
        writer = next(s for s in self.plan.segments if s.name == self.plan.through)
        sink = self.plan.members(writer)[-1]
        chain = self.chain(writer, finish.schema)
        key = Batch(self.context(sink.node), -1)
        task = write_task(sink, key, chain, finish.schema if chain is None else chain.schema)
        return Through(finish.node, finish.chain, task, policy=finish.policy)

    def _from_spark(self, stage: Stage, source: SparkSource, who: str) -> DataFrame:
        frame = loaded(who, source, self.spark)
        if stage.name in self.plan.carried:
            frame = with_original(frame)
        if not source.static:
            return frame
        self._once[stage.name] = frame
        mark = Once(rows=arrow_schema(frame.schema))
        return self._stream(stage, mark, Fused(stage.name, Chain((), mark.schema())), ReadOptions())

    def _stream(self, stage: Stage, source: Any, finish: Fused, settings: Any) -> DataFrame:
        format = f"penstock.pipeline.{uuid.uuid4().hex}"
        ctx, who = self.context(stage.node), speaker(stage.what)
        self.spark.dataSource.register(fused_format(format, who, source, ctx, finish, settings))
        return self.spark.readStream.format(format).load()

    def _settings(self, stage: Stage, segment: Segment) -> Any:
        """The source's settings as declared, with the pipeline's limits and folders filled in."""
        given = stage.settings or settings_class(type(stage.work))()
        filled: dict[str, Any] = {
            "checkpoint": self.checkpoint.location,
            "state": self.checkpoint.node(stage.node),
        }
        filled |= bounds(self.plan.graph.settings, given, self._bound_sources())
        for dealt in (s.work for s in self.plan.members(segment) if isinstance(s.work, Split)):
            # The plan lets a queue's reader deal its messages out: no shuffle for it.
            if given.parts == 1:
                filled["parts"] = dealt.tasks or self.spark.sparkContext.defaultParallelism
        return evolve(given, **filled)

    def _bound_sources(self) -> int:
        """How many sources the pipeline's limits are shared out over."""
        return sum(s.kind == "source" and not isinstance(s.work, SparkSource) for s in self.plan)

    def _apply(self, segment: Segment, frames: dict[str, DataFrame]) -> DataFrame:
        inputs = [frames[name] for name in segment.inputs]
        frame = inputs[0]
        for other in inputs[1:]:
            frame = frame.unionByName(other)
        run: list[Stage] = []
        for stage in self.plan.members(segment):
            if stage.python:
                run.append(stage)
                continue
            frame = self._chained(frame, run)
            run = []
            frame = self._frame_stage(frame, stage)
        return self._chained(frame, run)

    def _chained(self, frame: DataFrame, stages: list[Stage]) -> DataFrame:
        if not stages:
            return frame
        chain = self._chain(stages, stages[-1], arrow_schema(frame.schema))
        return frame.mapInArrow(ChainTask(chain), spark_schema(chain.schema))

    def _frame_stage(self, frame: DataFrame, stage: Stage) -> DataFrame:
        work = stage.work
        if isinstance(work, Split):
            tasks = work.tasks or self.spark.sparkContext.defaultParallelism
            if not work.by_key:
                return frame.repartition(tasks)
            return by_stamp(frame.repartition(tasks, "_pen.key"))
        if isinstance(work, MergeSort):
            return by_stamp(frame.repartition(1))
        made = work.apply(frame)
        if not isinstance(made, DataFrame):
            raise MaterialiseError(
                "a function over a DataFrame must return one",
                who=stage.node,
                expected="DataFrame",
                got=type(made).__name__,
            )
        return made


def bounds(limits: Settings, given: Any, sources: int) -> dict[str, Any]:
    """What a source's settings say of a batch's size: its share of the pipeline's, or less.

    A limit that the source has only by default gives way to the pipeline's.
    """
    filled = {}
    for name in ("max_rows", "max_bytes", "max_wait"):
        most = getattr(limits, name)
        if most is None or not hasattr(given, name):
            continue
        if name != "max_wait":
            most = max(1, most // sources)
        own = getattr(given, name)
        default = getattr(fields(type(given)), name).default
        filled[name] = most if own is None or own == default else min(own, most)
    return filled


def by_stamp(frame: DataFrame) -> DataFrame:
    """Each source's order restored within the partitions."""
    stamp = "_pen.stamp"
    return frame.sortWithinPartitions(f"{stamp}.origin", f"{stamp}.part", f"{stamp}.position")
