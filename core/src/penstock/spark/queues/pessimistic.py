"""Pessimistic delivery: messages go to a durable spool, are acknowledged, and then planned.

Receiving is never part of the batch it feeds. A replay reads the manifest and its segments,
never the broker, so it is the same byte for byte.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.contracts.errors import OptionError
from penstock.contracts.queue import QueueSource
from penstock.contracts.source import Context, Limit, Position
from penstock.spark.commitlog import CommitLog, Watcher
from penstock.spark.failures import speaker, told
from penstock.spark.queues.backoff import connected
from penstock.spark.queues.child import Task
from penstock.spark.queues.ending import Ending
from penstock.spark.queues.options import QueueOptions
from penstock.spark.queues.parts import Carried, carried, finished
from penstock.spark.queues.processes import ReceiverProcess, stop_all
from penstock.spark.queues.spool import Spool
from penstock.spark.source import Finish

FILL_WITHIN, FILL_PAUSE = 1.0, 0.2


class PessimisticReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches from segments; its receivers are child processes on the driver's host."""

    def __init__(
        self, source: QueueSource, options: QueueOptions, ctx: Context, finish: Finish
    ) -> None:
        self.folder = options.folder(ctx)
        if self.folder is None:
            raise OptionError(
                "the option state is missing: pessimistic delivery keeps messages in a folder",
                who=speaker(ctx.node),
                expected="a durable local folder",
                fix="add state=..., or checkpoint=...",
            )
        self.source = source
        self.options = options
        self.ctx = ctx
        self.finish = finish
        self._live: _Line | None = None
        self._ending: Ending | None = None
        self._available_now = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None, "_ending": None}

    def initialOffset(self) -> dict[str, Any]:
        """Before the first manifest."""
        return {"m": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The next manifest: one that is left from before, or a new one."""
        with self._told("planning"):
            wide = Limit() if isinstance(limit, ReadAllAvailable) else self.options.limit()
            return self._line().plan(start, wide)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The rows of the manifests between; may be the first call a new process gets."""
        if start == end:
            return []
        with self._told("planning"):
            return carried(self._line().rows(start, end), self.options.parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On a worker: unpack, and through the chain."""
        if isinstance(partition, Carried):
            yield from finished(partition.batches(), self.finish)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark tells one batch late; the checkpoint has told before, where it is watched."""
        with self._told("removing segments"):
            self._line().durable([end])

    def stop(self) -> None:
        """Let the receivers finish what they have in hand."""
        line, self._live = self._live, None
        if line is not None:
            line.stop()

    def prepareForTriggerAvailableNow(self) -> None:
        """End when what the broker and the spool hold now has been read."""
        self._available_now = True

    def getDefaultReadLimit(self) -> ReadLimit:
        """Rows; the byte limit is kept besides."""
        return ReadMaxRows(self.options.max_rows)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Lag and counts, for the query's progress."""
        if self._live is None:
            return None
        with self._told("measuring the lag"):
            return self._live.report()

    def _line(self) -> _Line:
        if self._live is None:
            assert self.folder is not None
            self._live = _Line(self.source, self.options, self.ctx, self.folder)
            self._live.available_now = self._available_now
        return self._live

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        if self._ending is None:
            self._ending = Ending(self.stop)
        with self._ending.call(), told(speaker(self.ctx.node), self.source, doing):
            yield


class _Line:
    """The living part: the spool, the receivers, the watch over commits."""

    def __init__(
        self, source: QueueSource, options: QueueOptions, ctx: Context, folder: str
    ) -> None:
        self._source = source
        self._options = options
        self._ctx = ctx
        self._folder = folder
        self._spool = Spool(folder, options.horizon, options.unique_ids)
        self._calls = threading.RLock()
        self._receivers: list[ReceiverProcess] = []
        self._watcher = None
        if options.checkpoint is not None:
            self._watcher = Watcher(CommitLog(options.checkpoint), self.durable)
        self.available_now = False
        self._target: int | None = None

    def plan(self, start: dict[str, Any], limit: Limit) -> dict[str, Any]:
        self._receive()
        with self._calls:
            after = self._spool.number(start)
        if self.available_now:
            if not self._await_target():
                return start
            self._fill()
        elif self._options.max_wait:
            self._await_rows()
        with self._calls:
            number = self._spool.plan(after, limit)
            if number == after:
                return start
            return self._spool.offset(number)

    def rows(self, start: dict[str, Any], end: dict[str, Any]) -> list[pa.RecordBatch]:
        with self._calls:
            return self._spool.rows(self._spool.number(start), self._spool.number(end))

    def durable(self, offsets: list[Position]) -> None:
        """Some of these offsets may be ours."""
        with self._calls:
            for offset in offsets:
                if offset.get("s") == self._spool.name:
                    self._spool.durable(self._spool.number(offset))

    def stop(self) -> None:
        stop_all(self._receivers)
        if self._watcher is not None:
            self._watcher.close()
        self._spool.close()

    def report(self) -> dict[str, Any]:
        numbers = [receiver.numbers for receiver in self._receivers]
        depths = [n["depth"] for n in numbers if n.get("depth") is not None]
        with self._calls:
            waiting = self._ready()
        depth = max(depths, default=None)
        return {
            "node": self._ctx.node,
            "lag": {} if depth is None else {"queue": depth + waiting},
            "depth": depth,
            "ready": waiting,
            "spool_bytes": self._spool.folders.size(),
            "received": sum(r.total("received") for r in self._receivers),
            "redelivered": sum(r.total("redelivered") for r in self._receivers),
            "reconnects": sum(r.total("reconnects") for r in self._receivers),
            "restarts": sum(r.restarts for r in self._receivers),
            "duplicates": self._spool.duplicates,
            "same_id": self._spool.same_id,
            "torn": self._spool.torn,
        }

    def _receive(self) -> None:
        """Start the receivers, or see that they are well."""
        if not self._receivers:
            if self.available_now:
                self._target = self._available()
            self._receivers = [
                ReceiverProcess(Task(self._source, self._options, self._ctx, number, self._folder))
                for number in range(self._options.receivers)
            ]
        for receiver in self._receivers:
            receiver.look()

    def _available(self) -> int | None:
        """What the broker and the spool hold now; None if the broker cannot say."""
        consumer = connected(self._source, self._ctx, 0, self._options.retry_for)
        try:
            depth = consumer.depth()
        finally:
            consumer.close()
        if depth is None:
            return None
        return depth + self._ready()

    def _await_rows(self) -> None:
        deadline = time.monotonic() + self._options.max_wait
        while time.monotonic() < deadline:
            waiting = self._ready()
            if not 0 < waiting < self._options.max_rows:
                return
            time.sleep(0.01)

    def _await_target(self) -> bool:
        """Wait for a segment; False when all that AvailableNow shall read is planned."""
        since, seen = time.monotonic(), -1
        while True:
            if self._target is not None and self._spool.planned >= self._target:
                return False
            if self._spool.waiting():
                return True
            received = sum(r.total("received") for r in self._receivers)
            if received != seen or self._busy():
                since, seen = time.monotonic(), received
            if time.monotonic() - since > self._options.quiet:
                return False
            for receiver in self._receivers:
                receiver.look()
            time.sleep(0.02)

    def _fill(self) -> None:
        """All there is will be read anyway: as long as more pours in, a fuller batch is cheaper."""
        deadline, ready = time.monotonic() + FILL_WITHIN, self._ready()
        while ready < self._options.max_rows and time.monotonic() < deadline:
            seen = ready
            time.sleep(FILL_PAUSE)
            ready = self._ready()
            if ready == seen:
                return

    def _ready(self) -> int:
        return sum(segment.rows for segment in self._spool.waiting())

    def _busy(self) -> bool:
        """Whether messages may still come: the broker has some, or is being looked for."""
        numbers = [receiver.numbers for receiver in self._receivers]
        return any(not n.get("connected") or n.get("depth") for n in numbers)
