"""A batch without Spark: just as much of a DataFrame as the drain asks for.

It lets the order of the drain's steps, and what is left after each of them failed, be tested in
milliseconds; what Spark itself does is tested with Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from attrs import frozen
from pyspark import cloudpickle

import penstock as pen
from penstock.contracts.delivery import ReadOptions
from penstock.contracts.envelope import UNDECODED, is_envelope
from penstock.contracts.source import Limit
from penstock.pipeline.chain import Chain
from penstock.pipeline.plan import Plan, Stage
from penstock.spark import share, shares, through
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.deadletters import DeadLetters
from penstock.spark.drain import Drain
from penstock.spark.fused import Fused
from penstock.spark.materialise import Materialised
from penstock.spark.source import BatchReader
from penstock.spark.types import spark_schema

Partition = list[pa.RecordBatch]


class Task:
    """The part of a TaskContext that tasks ask for."""

    now: Task | None = None

    def __init__(self, partition: int, told: dict[str, str]) -> None:
        self._partition = partition
        self._told = told

    def partitionId(self) -> int:  # noqa: N802
        return self._partition

    def attemptNumber(self) -> int:  # noqa: N802
        return 0

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self._told.get(name)

    @classmethod
    def get(cls) -> Task | None:
        return cls.now


class Session:
    """Conf and range."""

    def __init__(self) -> None:
        self.conf = SimpleNamespace(get=lambda name: None, set=lambda name, value: None)
        self.told: dict[str, str] = {}
        self.sparkContext = SimpleNamespace(setLocalProperty=self.told.__setitem__)

    def range(self, start: int, end: int, step: int, tasks: int) -> Frame:
        column = [pa.RecordBatch.from_pydict({"id": [n]}) for n in range(start, end)]
        parts = [[each] for each in column] or [[]]
        return Frame(self, parts, pa.schema([("id", pa.int64())]))


class Unread:
    """A batch whose reader reads when asked, as Spark's does."""

    def __init__(self, session: Session, reader: BatchReader) -> None:
        self.sparkSession = session
        self.reader = reader
        self.parts = reader.partitions()
        counted = SimpleNamespace(getNumPartitions=lambda: len(self.parts))
        execution = SimpleNamespace(toRdd=lambda: counted)
        self._jdf = SimpleNamespace(queryExecution=lambda: execution)

    def select(self, column: str) -> Frame:
        assert column == "_pen.error.message"
        told = []
        for number, part in enumerate(self.parts):
            Task.now = Task(number, self.sparkSession.told)
            try:
                read = list(self.reader.read(part))
            finally:
                Task.now = None
            said = [rows.column("_pen").field("error").field("message") for rows in read]
            told.append([pa.RecordBatch.from_arrays([each], ["message"]) for each in said])
        return Frame(self.sparkSession, told, pa.schema([("message", pa.string())]))


class Frame:
    """Partitions of Arrow batches."""

    def __init__(self, session: Session, partitions: list[Partition], schema: pa.Schema) -> None:
        self.sparkSession = session
        self.partitions = partitions
        self.schema = spark_schema(schema)
        counted = SimpleNamespace(getNumPartitions=lambda: len(self.partitions))
        execution = SimpleNamespace(toRdd=lambda: counted)
        self._jdf = SimpleNamespace(queryExecution=lambda: execution)

    def mapInArrow(self, function: Callable[[Any], Any], schema: Any) -> Frame:  # noqa: N802
        made = []
        for number, part in enumerate(self.partitions):
            Task.now = Task(number, self.sparkSession.told)
            try:
                made.append(list(function(iter(part))))
            finally:
                Task.now = None
        first = next((rows.schema for part in made for rows in part), pa.schema([]))
        return Frame(self.sparkSession, made, first)

    def collect(self) -> list[tuple[Any, ...]]:
        rows = [rows for part in self.partitions for rows in part]
        return [tuple(row.values()) for each in rows for row in each.to_pylist()]


@frozen
class Rig:
    """A pipeline with one Penstock source over a checkpoint, drained by hand."""

    flow: pen.Flow
    folder: Path
    tasks: int | None = None

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(str(self.folder))

    @property
    def letters(self) -> DeadLetters:
        return DeadLetters(self.checkpoint.dead_letters)

    def drain(self, number: int = 0) -> Drain:
        """Drain the source's rows as batch `number`, as a driver that was just started."""
        plan: Plan = self.flow.analyse()
        reader = next(s for s in plan.segments if s.runs == "reader")
        session = Session()
        made = object.__new__(Materialised)
        made.plan, made.spark, made.checkpoint = plan, session, self.checkpoint
        made.query = self.checkpoint.claim(plan.graph.name)
        batch: Any = unread(plan, session, made) if plan.through else read(plan, session)
        if self.tasks is not None:
            batch.partitions += [[] for _ in range(self.tasks - len(batch.partitions))]
        made._streaming, made._once, made._native = {reader.name: batch}, {}, {}
        drain = Drain(plan, made, self.checkpoint, self.letters)
        drain(batch, number)
        return drain


def unread(plan: Plan, session: Session, made: Materialised) -> Unread:
    """The fused reader with the writer in it, as it arrives on a worker."""
    stage, fused = reader_of(plan)
    finish = cloudpickle.loads(cloudpickle.dumps(made._through(fused)))
    context = made.context(stage.node)
    return Unread(session, BatchReader(stage.what, stage.work, context, finish, ReadOptions()))


def reader_of(plan: Plan) -> tuple[Stage, Fused]:
    """The source's stage, and what is fused into its reader."""
    segment = next(s for s in plan.segments if s.runs == "reader")
    stage = plan.members(segment)[0]
    schema = stage.work.schema()
    given = UNDECODED if is_envelope(schema) else schema
    return stage, Fused(stage.name, Chain(plan.chain(segment), given), policy=stage.policy)


def read(plan: Plan, session: Session) -> Frame:
    """What the fused reader gives, a partition per part of the source."""
    stage, fused = reader_of(plan)
    planner = stage.work.planner(None)
    start = planner.initial()
    parts = planner.plan(start, planner.latest(start, Limit()))
    partitions = [[fused.apply(rows) for rows in stage.work.read(part)] for part in parts]
    return Frame(session, partitions, fused.schema)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks learn their number from the stand-in."""
    for module in (share, shares, through):
        monkeypatch.setattr(module, "TaskContext", Task)
