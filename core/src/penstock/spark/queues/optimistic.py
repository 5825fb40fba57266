"""Optimistic delivery: messages wait in the broker until Spark has committed their batch.

At least once, with nothing on disk. A batch that Spark replays is empty: its messages were
never acknowledged, the broker delivers them again, and they enter a later batch. Refilling a
replayed batch instead would lose them in a sink that had finished it.
"""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from penstock.contracts.errors import OptionError
from penstock.contracts.queue import QueueSource
from penstock.contracts.source import Context, Limit
from penstock.spark.commitlog import CommitLog
from penstock.spark.failures import speaker
from penstock.spark.queues.ledger import Ledger
from penstock.spark.queues.options import QueueOptions
from penstock.spark.queues.parts import carried
from penstock.spark.queues.poison import Poison, Upcoming
from penstock.spark.queues.reader import QueueReader, Quiet, fill, lag
from penstock.spark.queues.receiver import Receiver
from penstock.spark.source import Finish

LOOK_EVERY = 0.02
CONNECT_WITHIN = 30.0
LOGGED_WITHIN = 20.0
STOP_WITHIN = 20.0


class Commits:
    """What Spark has committed of one epoch, from the checkpoint and from Spark's own calls."""

    def __init__(self, checkpoint: str | None, epoch: str, ledger: Ledger) -> None:
        self._log = None if checkpoint is None else CommitLog(checkpoint)
        self._epoch = epoch
        self._ledger = ledger
        self._lock = threading.RLock()
        self._next = 0.0
        self._seen: int | None = None

    def look(self, now: bool = False) -> None:
        """Read new commits; between two looks of any thread passes a short while, unless `now`."""
        if self._log is None or not (self._ledger.waits() or now):
            return
        with self._lock:
            if not now and time.monotonic() < self._next:
                return
            newest = self._log.committed()
            if newest is not None and newest != self._seen:
                self.told(self._log.offsets(newest))
                self._seen = newest
            self._next = time.monotonic() + LOOK_EVERY

    def told(self, offsets: list[dict[str, Any]]) -> None:
        """Some of these offsets may be ours."""
        for offset in offsets:
            if offset.get("e") == self._epoch:
                self._ledger.commit(int(offset["n"]))

    def expect(self, number: int) -> None:
        """See that the batch just planned is in this checkpoint: Spark has logged it before.

        Raises:
            OptionError: it is not there; the option names another checkpoint.
        """
        if self._log is None:
            return
        deadline = time.monotonic() + LOGGED_WITHIN
        while not self._logged(number):
            if time.monotonic() > deadline:
                raise OptionError(
                    "the checkpoint option does not name this query's checkpoint: the batch that "
                    "was just planned is not in it",
                    expected=f"an entry of epoch {self._epoch} in {self._log.checkpoint}/offsets",
                    got=f"newest batch there: {self._log.planned()}",
                    fix="set checkpoint to the query's checkpointLocation, or drop it and set "
                    'ack="next-batch"',
                )
            time.sleep(LOOK_EVERY)

    def _logged(self, number: int) -> bool:
        assert self._log is not None
        newest = self._log.planned()
        offsets = [] if newest is None else self._log.offsets(newest)
        return any(o.get("e") == self._epoch and o.get("n") == number for o in offsets)


class OptimisticReader(QueueReader["_Line"]):
    """Consumers live in this reader's own process."""

    def __init__(
        self, source: QueueSource, options: QueueOptions, ctx: Context, finish: Finish
    ) -> None:
        if options.ack == "commit" and options.checkpoint is None:
            raise OptionError(
                "the option checkpoint is missing: messages are acknowledged when Spark commits",
                who=speaker(ctx.node),
                expected="the query's checkpointLocation",
                fix='add checkpoint=..., or choose ack="next-batch"',
            )
        super().__init__(source, options, ctx, finish)

    def initialOffset(self) -> dict[str, Any]:
        """Before anything was received."""
        return {"e": "", "n": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch: what has arrived, within the limits."""
        with self._told("receiving"):
            line = self._line()
            end = line.plan(start, Limit() if isinstance(limit, ReadAllAvailable) else None)
            return start if end is None else end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The rows of a batch; a batch of another process is empty."""
        if start == end or self._live is None or end.get("e") != self._live.epoch:
            return []
        with self._told("planning"):
            return self._live.parts(start, end)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark tells one batch late; the checkpoint has told before, where it is watched."""
        if self._live is not None:
            with self._told("acknowledging"):
                self._live.commits.told([end])

    def _begin(self) -> _Line:
        return _Line(self.source, self.options, self.ctx, self._available_now)


class _Line:
    """The living part: receivers, and the ledger between them and Spark."""

    def __init__(
        self, source: QueueSource, options: QueueOptions, ctx: Context, available_now: bool
    ) -> None:
        self.epoch = uuid.uuid4().hex
        self._options = options
        self._single = source.leases == 1
        ahead = source.prefetch or source.most_prefetched
        self._ahead = None if ahead is None else ahead * options.receivers
        self._ledger = Ledger(options.receivers, options.limit(), source.leases)
        self.commits = Commits(options.checkpoint, self.epoch, self._ledger)
        self._poison = Poison.within(options.folder(ctx), options.poison)
        self._receivers = [
            Receiver(
                source,
                ctx,
                number,
                self._ledger,
                options.retry_for,
                self.commits.look,
            )
            for number in range(options.receivers)
        ]
        for receiver in self._receivers:
            receiver.start()
        self._target = self._available() if available_now else None
        self._available_now = available_now

    def plan(self, start: dict[str, Any], limit: Limit | None) -> dict[str, Any] | None:
        """The offset after the next batch; None if there is nothing for it."""
        self._check()
        self.commits.look(now=True)
        begun = int(start["n"]) if start.get("e") == self.epoch else 0
        # A connection that is lost meanwhile takes back what was waited for: no rows now are not
        # the end of what AvailableNow shall read.
        while self._ledger.planned == begun and self._await_rows():
            self._plan(self._bounded(limit or self._options.limit()))
        if self._ledger.planned == begun:
            return None
        return {"e": self.epoch, "n": self._ledger.planned}

    def _plan(self, limit: Limit) -> None:
        if self._poison is None:
            self._ledger.plan(limit)
            return
        self._poison.committed(self._ledger.committed)
        with self._ledger.held_still():
            while (first := self._ledger.upcoming(1)) and self._poison.hopeless(first[0]):
                self._poison.left_out(self._ledger.skip(), first[0])
            most = self._options.max_rows if limit.rows is None else limit.rows
            cap = self._poison.bound(self._ledger.upcoming(most), most)
            rows = cap if cap < most else limit.rows
            before, waiting = self._ledger.planned, self._ledger.upcoming(rows)
            end = self._ledger.plan(Limit(rows=rows, bytes=limit.bytes))
            self._poison.planned(end, _first(waiting, end - before))

    def parts(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._check()
        self.commits.expect(int(end["n"]))
        begun = int(start["n"]) if start.get("e") == self.epoch else 0
        return carried(self._ledger.rows(begun, int(end["n"])), self._options.parts)

    def stop(self) -> None:
        self.commits.look(now=True)
        for receiver in self._receivers:
            receiver.stop()
        deadline = time.monotonic() + STOP_WITHIN
        for receiver in self._receivers:
            receiver.join(max(0.0, deadline - time.monotonic()))
        if self._poison is not None:
            self._poison.committed(self._ledger.committed)
            self._poison.close()

    def report(self) -> dict[str, Any]:
        counts = self._ledger.counts
        # All receivers see the same queues.
        depth, ready = max(counts.depth.values(), default=None), self._ledger.ready()
        return {
            **lag(depth, ready),
            "unacknowledged": self._ledger.unacknowledged(),
            "received": counts.received,
            "redelivered": counts.redelivered,
            "reconnects": counts.reconnects,
            "poison": 0 if self._poison is None else self._poison.count,
        }

    def _bounded(self, limit: Limit) -> Limit:
        """Never past what AvailableNow shall read."""
        left = self._left()
        if left is None:
            return limit
        return Limit(rows=left if limit.rows is None else min(left, limit.rows), bytes=limit.bytes)

    def _left(self) -> int | None:
        """How many rows AvailableNow has still to plan; None if nobody knows."""
        if self._target is None:
            return None
        return max(0, self._target + self._ledger.counts.again - self._ledger.planned)

    def _await_rows(self) -> bool:
        """Wait for a batch as full as is worth it; False if there is none, or none any more."""
        if self._available_now:
            if not self._await_target():
                return False
            fill(self._ledger.ready, self._full, lambda: self._ledger.wait(0.05))
        elif self._ledger.ready() and self._options.max_wait:
            deadline = time.monotonic() + self._options.max_wait
            while not self._full() and time.monotonic() < deadline:
                self._ledger.wait(deadline - time.monotonic())
        return self._available_now or self._ledger.ready() > 0

    def _most(self) -> int:
        """How many rows can wait at once before a batch is planned."""
        most = self._bounded(self._options.limit()).rows or 0
        return most if self._ahead is None else min(most, self._ahead)

    def _full(self) -> bool:
        limit = Limit(rows=self._most(), bytes=self._options.max_bytes)
        return self._ledger.fills(limit) or not self._room()

    def _room(self) -> bool:
        """Whether to wait for more.

        A receiver whose only lease waits for a batch stands still until that is committed: the
        others fill the next one meanwhile.
        """
        rooms = [self._ledger.room(receiver.number).rows for receiver in self._receivers]
        return all(rooms) if self._single else any(rooms)

    def _available(self) -> int | None:
        """How many messages the broker held when this began; None if it cannot say."""
        deadline = time.monotonic() + CONNECT_WITHIN
        for receiver in self._receivers:
            receiver.connected.wait(max(0.0, deadline - time.monotonic()))
        self._check()
        # Not what they see by now: the first may have emptied the queue before the last is there.
        return max(self._ledger.counts.first.values(), default=None)

    def _await_target(self) -> bool:
        """Wait for rows; False when all that was there at the start is planned, or none come."""
        quiet, counts = Quiet(self._options.quiet), self._ledger.counts
        while self._left() != 0:
            if self._ledger.ready():
                return True
            connected = all(receiver.connected.is_set() for receiver in self._receivers)
            if quiet.over(counts.received, connected, max(counts.depth.values(), default=0)):
                return False
            self._check()
            self.commits.look()
            self._ledger.wait(0.05)
        return False

    def _check(self) -> None:
        for receiver in self._receivers:
            if receiver.error is not None:
                raise receiver.error


def _first(upcoming: list[Upcoming], count: int) -> list[Upcoming]:
    """The leading rows of these, so many of them."""
    taken: list[Upcoming] = []
    for each in upcoming:
        size = min(count, each.rows.num_rows)
        if size <= 0:
            break
        counts = None if each.deliveries is None else each.deliveries.slice(0, size)
        taken.append(Upcoming(each.rows.slice(0, size), each.redelivered.slice(0, size), counts))
        count -= size
    return taken
