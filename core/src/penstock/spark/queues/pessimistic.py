"""Pessimistic delivery: messages go to a durable spool, are acknowledged, and then planned.

Receiving is never part of the batch it feeds. A replay reads the manifest and its segments,
never the broker, so it is the same byte for byte.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from penstock.contracts.errors import OptionError
from penstock.contracts.queue import QueueSource
from penstock.contracts.source import Context, Limit, Position
from penstock.spark.commitlog import CommitLog, Watcher
from penstock.spark.failures import speaker
from penstock.spark.patience import patiently
from penstock.spark.queues.child import Task
from penstock.spark.queues.options import QueueOptions
from penstock.spark.queues.parts import carried
from penstock.spark.queues.processes import ReceiverProcess, stop_all
from penstock.spark.queues.reader import QueueReader, Quiet, fill, lag
from penstock.spark.queues.spool import Spool
from penstock.spark.source import Finish


class PessimisticReader(QueueReader["_Line"]):
    """Plans batches from segments; its receivers are child processes on the driver's host."""

    def __init__(
        self, source: QueueSource, options: QueueOptions, ctx: Context, finish: Finish
    ) -> None:
        folder = options.folder(ctx)
        if folder is None:
            raise OptionError(
                "the option state is missing: pessimistic delivery keeps messages in a folder",
                who=speaker(ctx.node),
                expected="a durable local folder",
                fix="add state=..., or checkpoint=...",
            )
        self.folder = folder
        super().__init__(source, options, ctx, finish)

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

    def commit(self, end: dict[str, Any]) -> None:
        """Spark tells one batch late; the checkpoint has told before, where it is watched."""
        with self._told("removing segments"):
            self._line().durable([end])

    def _begin(self) -> _Line:
        return _Line(self.source, self.options, self.ctx, self.folder, self._available_now)


class _Line:
    """The living part: the spool, the receivers, the watch over commits."""

    def __init__(
        self,
        source: QueueSource,
        options: QueueOptions,
        ctx: Context,
        folder: str,
        available_now: bool,
    ) -> None:
        self._source = source
        self._options = options
        self._ctx = ctx
        self._folder = folder
        self._spool = Spool(folder, options.horizon, options.unique_ids, options.poison)
        self._calls = threading.RLock()
        self._receivers: list[ReceiverProcess] = []
        self._watcher = None
        if options.checkpoint is not None:
            self._watcher = Watcher(CommitLog(options.checkpoint), self.durable)
        self._available_now = available_now
        self._target: int | None = None

    def plan(self, start: dict[str, Any], limit: Limit) -> dict[str, Any]:
        self._receive()
        with self._calls:
            after = self._spool.number(start)
        if self._available_now:
            if not self._await_target():
                return start
            fill(self._ready, self._full, lambda: time.sleep(0.05))
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
        waiting = self._ready()
        depth = max(depths, default=None)
        return {
            **lag(depth, waiting),
            "unacknowledged": sum(n.get("unacknowledged", 0) for n in numbers),
            "spool_bytes": self._spool.folders.size(),
            "received": sum(r.total("received") for r in self._receivers),
            "redelivered": sum(r.total("redelivered") for r in self._receivers),
            "reconnects": sum(r.total("reconnects") for r in self._receivers),
            "restarts": sum(r.restarts for r in self._receivers),
            "duplicates": self._spool.duplicates,
            "same_id": self._spool.same_id,
            "nameless": self._spool.nameless,
            "torn": self._spool.torn,
            "poison": self._spool.poison,
        }

    def _receive(self) -> None:
        """Start the receivers, or see that they are well; none where others fill the spool."""
        if self._options.spool == "read":
            return
        if not self._receivers:
            if self._available_now:
                self._target = self._available()
            self._receivers = [
                ReceiverProcess(Task(self._source, self._options, self._ctx, number, self._folder))
                for number in range(self._options.receivers)
            ]
        for receiver in self._receivers:
            receiver.look()

    def _available(self) -> int | None:
        """What the broker and the spool hold now; None if the broker cannot say."""
        consumer = patiently(
            lambda: self._source.consumer(self._ctx, 0), within=self._options.retry_for
        )
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
            if not self._ready() or self._full():
                return
            time.sleep(0.01)

    def _await_target(self) -> bool:
        """Wait for a segment; False when all that AvailableNow shall read is planned."""
        quiet = Quiet(self._options.quiet)
        while True:
            if self._target is not None and self._spool.planned >= self._target:
                return False
            if self._ready():
                return True
            told = [receiver.numbers for receiver in self._receivers]
            received = sum(r.total("received") for r in self._receivers)
            connected = all(n.get("connected") for n in told)
            if quiet.over(received, connected, max((n.get("depth") or 0 for n in told), default=0)):
                return False
            for receiver in self._receivers:
                receiver.look()
            time.sleep(0.02)

    def _most(self) -> int:
        """How many rows the next batch can hold: not more than AvailableNow shall still read."""
        most = self._options.max_rows
        return most if self._target is None else min(most, self._target - self._spool.planned)

    def _full(self) -> bool:
        with self._calls:
            return self._spool.fills(Limit(rows=self._most(), bytes=self._options.max_bytes))

    def _ready(self) -> int:
        with self._calls:  # the watcher removes what is committed meanwhile
            return self._spool.ready()
