"""Records that came after the watermark: Spark forgets its older batches, so we add them up."""

from __future__ import annotations

import threading
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery


class Late:
    """A running total over the batches of one query."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_batch = 0
        self._batch = -1
        self._before = 0

    @property
    def total(self) -> int:
        """How many were dropped since the query was started."""
        return self._before + self._by_batch

    def look(self, query: StreamingQuery) -> None:
        """Take in what Spark has told since the last look; once a batch is often enough."""
        with self._lock:
            last = query.lastProgress
            if last is None:
                return
            # A pause of some seconds between two batches is told of too, in place of the last.
            recent = [last] if last["batchId"] <= self._batch + 1 else query.recentProgress
            for progress in recent:
                self.take(progress)

    def take(self, progress: Any) -> None:
        """Add what one report says; it may come again."""
        number, dropped = progress["batchId"], 0
        for operator in progress["stateOperators"]:
            dropped += int(operator.get("numRowsDroppedByWatermark", 0))
        if number > self._batch:
            self._before, self._by_batch, self._batch = self.total, dropped, number
        elif number == self._batch:
            self._by_batch = max(self._by_batch, dropped)
