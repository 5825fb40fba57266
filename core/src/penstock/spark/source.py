"""Any ReplayableSource as a Spark batch reader and stream reader."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.contracts.delivery import ReadOptions
from penstock.contracts.envelope import conform
from penstock.contracts.errors import PositionError
from penstock.contracts.source import Context, Limit, Part, Planner, Position, ReplayableSource
from penstock.spark.commitlog import CommitLog, Watcher
from penstock.spark.ending import Ending
from penstock.spark.failures import last_stamp, told
from penstock.spark.patience import RETRY_FOR, patiently
from penstock.spark.settling import settle


class Finish(Protocol):
    """What a reader does to rows before Spark sees them: nothing, or a fused chain."""

    @property
    def schema(self) -> pa.Schema:
        """What leaves the reader."""

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows in `schema`."""


@runtime_checkable
class Tallied(Finish, Protocol):
    """A finish that counts, and can say its counts as one row at the end of a part."""

    def run(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        """The rows in `schema`, and counts that add up."""

    def tally(self, counts: Any) -> pa.RecordBatch:
        """The row that carries them."""


@runtime_checkable
class Writes(Finish, Protocol):
    """A finish that can also write its rows to a sink, if the drain asked for it."""

    def asked(self) -> bool:
        """Whether it should, in this task."""

    def write(self, rows: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        """Write; one row of `schema` that tells what was done."""


@runtime_checkable
class HandsOn(Finish, Protocol):
    """A finish that takes a part as it was planned: what is in it is read elsewhere."""

    def hand_on(self, part: Part, index: int) -> pa.RecordBatch:
        """The row that carries it."""


class PlannedPart(InputPartition):
    """One part of a source, on its way to a task."""

    def __init__(self, part: Part, index: int) -> None:
        super().__init__(index)
        self.part = part


class _Reading:
    """What batch and stream readers share: the worker's side."""

    def __init__(
        self, who: str, source: ReplayableSource, ctx: Context, finish: Finish, options: ReadOptions
    ) -> None:
        self.who = who
        self.source = source
        self.ctx = ctx
        self.finish = finish
        self.options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part; each batch leaves in exactly the declared schema."""
        if not isinstance(partition, PlannedPart):  # Spark's stand-in for "no partitions"
            return
        settle()
        if isinstance(self.finish, HandsOn):
            yield self.finish.hand_on(partition.part, partition.value)
        elif isinstance(self.finish, Writes) and self.finish.asked():
            yield self.finish.write(self._rows(partition))
        else:
            yield from self._rows(partition)

    def _rows(self, partition: PlannedPart) -> Iterator[pa.RecordBatch]:
        last: pa.RecordBatch | None = None
        batches = self.source.read(partition.part)
        schema, finish = self.finish.schema, self.finish
        tallied = finish if isinstance(finish, Tallied) else None
        counts: Any = None

        def where() -> str:
            stamp = last_stamp(last)
            return f"part {partition.part!r}" + (f"; {stamp}" if stamp else "")

        while True:
            with told(self.who, self.source, "reading", where=where):
                rows = next(batches, None)
            if rows is None:
                break
            if tallied is not None:
                done, more = tallied.run(rows)
                counts = more if counts is None else counts + more
            else:
                done = finish.apply(rows)
            last = rows
            if done.num_rows:
                yield conform(done, schema)
        if tallied is not None and counts is not None:
            yield tallied.tally(counts)


def all_parts(source: ReplayableSource, ctx: Context) -> Sequence[Part]:
    """The parts of all that is there now."""
    planner = source.planner(ctx)
    try:
        return planner.plan(planner.initial(), planner.final())
    finally:
        planner.close()


class BatchReader(_Reading, DataSourceReader):
    """A bounded read of what is there."""

    def partitions(self) -> list[InputPartition]:
        """Plan from the initial to the final position; the planner lives only for this."""
        with told(self.who, self.source, "planning"):
            parts = all_parts(self.source, self.ctx)
        return [PlannedPart(part, index) for index, part in enumerate(parts)]


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over positions. The planner lives in the reader's own process.

    A position travels as `{"node": ..., "at": ...}`, so that a query with several sources can
    tell its lines in the offset log apart.
    """

    _planner: Planner | None = None
    _until: Position | None = None
    _available_now = False
    _last: Position | None = None
    _watcher: Watcher | None = None
    _ending: Ending | None = None

    def __getstate__(self) -> dict[str, Any]:
        keep = ("who", "source", "ctx", "finish", "options")
        return {name: getattr(self, name) for name in keep}

    def _live(self) -> Planner:
        if self._planner is None:
            self._planner = self.source.planner(self.ctx)
            if self.options.checkpoint:
                log = CommitLog(self.options.checkpoint)
                self._watcher = Watcher(log, self._committed)
        return self._planner

    def _committed(self, offsets: list[Position]) -> None:
        """Spark has committed a batch; called from the watcher's thread."""
        for offset in offsets:
            if offset.get("node") == self.ctx.node:
                with self._lock():
                    if self._planner is not None:
                        self._planner.durable(self._position(offset))

    def _tell_committed(self) -> None:
        # Not under the lock: the watcher's thread may be telling now, and then waits for it.
        if self._watcher is not None:
            with self._told("marking a batch durable"):
                self._watcher.sweep()

    def _lock(self) -> threading.RLock:
        if "_calls" not in self.__dict__:
            self._calls = threading.RLock()
        return self._calls

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        if self._ending is None:
            self._ending = Ending(self.stop)
        with self._ending.call(), told(self.who, self.source, doing):
            yield

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        with self._told("finding the start"), self._lock():
            return self._offset(self._live().initial())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch.

        The batch before it is told of first: at the end of a bounded query nothing is planned
        after this, and whoever waits for the query may look at once.
        """
        self._tell_committed()
        with self._told("planning"), self._lock():
            self._last = end = patiently(lambda: self._next(start, limit), within=self._patience())
            return self._offset(end)

    def _next(self, start: dict[str, Any], limit: ReadLimit) -> Position:
        planner, after = self._live(), self._position(start)
        if self._available_now and self._until is None:
            self._until = planner.available(after)
        return planner.latest(after, self._limit(limit), self._until)

    def _patience(self) -> float:
        """One that never worked fails soon; one that did is given time to find its server."""
        return 0.0 if self._planner is None else RETRY_FOR

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The parts of a batch; may be the first call a new process gets."""
        with self._told("planning"), self._lock():
            if start == end:
                return []
            planned = (self._position(start), self._position(end))
            parts = patiently(lambda: self._live().plan(*planned), within=self._patience())
            return [PlannedPart(part, index) for index, part in enumerate(parts)]

    def commit(self, end: dict[str, Any]) -> None:
        """Spark tells of a batch when it plans the next one; the watch may have told before."""
        with self._told("marking a batch durable"), self._lock():
            at = self._position(end)
            patiently(lambda: self._live().durable(at), within=self._patience())

    def stop(self) -> None:
        """Close what lives here."""
        if self._ending is not None:
            self._ending.stopping()
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.close()
        with self._lock():
            planner, self._planner = self._planner, None
            if planner is not None:
                planner.close()

    def prepareForTriggerAvailableNow(self) -> None:
        """End where the source ends at the first look."""
        self._available_now = True

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark takes one kind of limit; the others are applied from the options anyway."""
        options = self.options
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.max_files is not None:
            return ReadMaxFiles(options.max_files)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Lag by part, shown in the query's progress."""
        with self._told("measuring the lag"), self._lock():
            if self._last is None:
                return None
            at = self._last
            lag = patiently(lambda: self._live().lag(at), within=self._patience())
            return {"node": self.ctx.node, "lag": lag}

    def _limit(self, limit: ReadLimit) -> Limit:
        if isinstance(limit, ReadAllAvailable):
            return Limit()
        return self.options.limit()

    def _offset(self, position: Position) -> dict[str, Any]:
        return {"node": self.ctx.node, "at": json.dumps(position, sort_keys=True)}

    def _position(self, offset: dict[str, Any]) -> Position:
        return position_of(offset, self.ctx.node)


def position_of(offset: dict[str, Any], node: str) -> Position:
    """The position inside an offset of Spark's log.

    Raises:
        PositionError: it was written by another source.
    """
    try:
        found, position = offset["node"], json.loads(offset["at"])
    except (KeyError, TypeError, ValueError):
        found, position = None, None
    if not isinstance(position, dict) or found != node:
        raise PositionError(
            "the checkpoint holds a position of another source",
            expected=f"a position of {node}",
            got=repr(offset),
            fix="use another checkpoint, or the source it was made with",
        )
    return position
