"""What both deliveries are to Spark: one stream reader, and behind it a living line."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.contracts.queue import QueueSource
from penstock.contracts.source import Context
from penstock.spark.ending import Ending
from penstock.spark.failures import speaker, told
from penstock.spark.queues.options import QueueOptions
from penstock.spark.queues.parts import Carried, finished
from penstock.spark.settling import settle
from penstock.spark.source import Finish

FILL_WITHIN = 1.0
FILL_PAUSE = 0.5
"""So long nothing came: the queue is empty, or as good as."""
WITHHELD_AFTER = 180.0
"""So long a broker may count messages and give none: more than it may be frozen."""


class Line(Protocol):
    """Receivers and what is between them and Spark. Made on first use, ended by `stop`."""

    def stop(self) -> None:
        """Settle what is committed, give the rest back, end every thread and process."""

    def report(self) -> dict[str, Any]:
        """Lag and counts."""


log = logging.getLogger("penstock.queues")

LineT = TypeVar("LineT", bound=Line)


class QueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[LineT]):
    """A queue as Spark's stream reader; its rows travel inside the partitions.

    Lives in one process of its own from the first call to the end of the query. A pickled copy,
    on a worker, only unpacks.
    """

    def __init__(
        self, source: QueueSource, options: QueueOptions, ctx: Context, finish: Finish
    ) -> None:
        self.source = source
        self.options = options
        self.ctx = ctx
        self.finish = finish
        self._live: LineT | None = None
        self._ending: Ending | None = None
        self._available_now = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None, "_ending": None}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On a worker: unpack, and through the chain."""
        settle()
        if isinstance(partition, Carried):
            yield from finished(partition.batches(), self.finish)

    def stop(self) -> None:
        """Acknowledge what is due, give the rest back."""
        if self._ending is not None:
            self._ending.stopping()
        line, self._live = self._live, None
        if line is not None:
            line.stop()

    def prepareForTriggerAvailableNow(self) -> None:
        """End when what waits now has been read."""
        self._available_now = True

    def getDefaultReadLimit(self) -> ReadLimit:
        """Rows; the byte limit is kept besides."""
        return ReadMaxRows(self.options.max_rows)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Lag and counts, for the query's progress."""
        if self._live is None:
            return None
        with self._told("measuring the lag"):
            return {"node": self.ctx.node, **self._live.report()}

    @abstractmethod
    def _begin(self) -> LineT: ...

    def _line(self) -> LineT:
        if self._live is None:
            self._live = self._begin()
        return self._live

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        if self._ending is None:
            self._ending = Ending(self.stop)
        with self._ending.call(), told(speaker(self.ctx.node), self.source, doing):
            yield


def lag(depth: int | None, ready: int) -> dict[str, Any]:
    """How much is not read yet, as every delivery tells it."""
    known = {} if depth is None else {"queue": depth + ready}
    return {"lag": known, "depth": depth, "ready": ready}


class Quiet:
    """Whether AvailableNow has waited long enough for messages that do not come.

    Args:
        seconds: How long nothing must come where the broker has no more.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._received = 0
        self._idle_since = self._came = time.monotonic()

    def over(self, received: int, connected: bool, depth: int) -> bool:
        """Told the count so far, whether the broker is there, and how many it says to have."""
        now = time.monotonic()
        if received != self._received or not connected:
            self._received = received
            self._came = self._idle_since = now
        if now - self._came > WITHHELD_AFTER:
            log.warning(
                "the broker counts %d messages, but has given none for %.0f s: another consumer "
                "may hold them; they are left for the next run",
                depth,
                WITHHELD_AFTER,
            )
            return True
        if depth:
            self._idle_since = now
        return now - self._idle_since > self._seconds


def fill(ready: Callable[[], int], full: Callable[[], bool], pause: Callable[[], object]) -> None:
    """All there is will be read anyway: as long as more pours in, a fuller batch is cheaper.

    Args:
        ready: How many rows wait.
        full: Whether they fill a batch, or no more can come.
        pause: Waits a moment for more.
    """
    waiting, since = ready(), time.monotonic()
    deadline = since + FILL_WITHIN
    while waiting and not full() and time.monotonic() < deadline:
        pause()
        seen, waiting = waiting, ready()
        if waiting != seen:
            since = time.monotonic()
        elif time.monotonic() - since > FILL_PAUSE:
            return
