"""A receiver process: takes leases, writes segments, then acknowledges.

Started by the reader with what to do on its standard input; it ends, cleanly, when that input
ends, so it never outlives the reader by more than the lease at work. On its standard output it
tells numbers and, last, why it failed.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import pickle
import sys
import threading
import time
import traceback
from typing import IO, Any, Protocol

import pyarrow.compute as pc
from attrs import frozen

from penstock.contracts.errors import EphemeralError, PenstockError, ReadError
from penstock.contracts.points import reached
from penstock.contracts.queue import Consumer, Lease, QueueSource
from penstock.contracts.source import Context, Limit
from penstock.spark.queues.backoff import Backoff
from penstock.spark.queues.options import QueueOptions
from penstock.spark.queues.segments import SegmentWriter, spooled
from penstock.spark.queues.spool import Folders

log = logging.getLogger("penstock.queues")

TELL_EVERY = 0.5
WAIT = 0.1
GATHER = 0.1
"""How long a segment may take to fill: fewer, larger segments cost fewer fsyncs."""
SEGMENTS = 4
"""So many make a batch: small ones fill it better, and a broker has less to do for messages that are
acknowledged soon."""
WORTH_ONE = 1000
"""Rows that are not cut any smaller."""


@frozen
class Task:
    """What a receiver process is to do."""

    source: QueueSource
    options: QueueOptions
    ctx: Context
    number: int
    folder: str


class Stopping(Protocol):
    """Says when to stop: an Event, or a clock."""

    def is_set(self) -> bool: ...
    def wait(self, timeout: float) -> Any: ...


class Out(Protocol):
    """Hears a line of JSON now and then."""

    def write(self, line: str, /) -> Any: ...
    def flush(self) -> Any: ...


class SpoolReceiver:
    """Receives into segments until told to stop."""

    def __init__(self, task: Task, out: Out, stopping: Stopping) -> None:
        self._task = task
        self._out = out
        self._folders = Folders(task.folder)
        self._writer = SegmentWriter(self._folders / "drafts", self._folders / "inbox", task.number)
        most, size = task.options.max_rows, task.options.max_bytes
        rows = min(most, max(WORTH_ONE, most // SEGMENTS))
        self._segment = Limit(rows=rows, bytes=max(1, size // SEGMENTS))
        self._backoff = Backoff(task.options.retry_for)
        self.stopping = stopping
        self._told_at = 0.0
        self._size = 0
        self._numbers: dict[str, Any] = {
            "depth": None, "unacknowledged": 0, "received": 0, "redelivered": 0, "reconnects": 0,
            "connected": False,
        }  # fmt: skip

    def run(self) -> None:
        while not self.stopping.is_set():
            self._session()

    def _session(self) -> None:
        consumer: Consumer | None = None
        try:
            consumer = self._task.source.consumer(self._task.ctx, self._task.number)
            rows = self._segment.rows or 1
            ahead = 1 if self._task.source.leases == 1 else 2
            consumer.window(Limit(rows=ahead * rows, bytes=self._segment.bytes))
            self._numbers["connected"] = True
            while not self.stopping.is_set():
                self._turn(consumer)
                self._backoff.worked()
        except PenstockError as error:
            if not isinstance(error, EphemeralError):
                raise
            self._lost(error)
        finally:
            if consumer is not None:
                consumer.close()

    def _turn(self, consumer: Consumer) -> None:
        self._tell(consumer)
        if self._size > self._task.options.max_spool:
            consumer.receive(Limit(rows=0), WAIT)
            self._size = self._folders.size()
            return
        leases = self._gathered(consumer)
        if not leases:
            return
        reached("segment-received")
        batches = [spooled(lease) for lease in leases]
        segment = self._writer.write(batches)
        self._size += sum(rows.nbytes for rows in batches)
        reached("segment-written", segment=segment.name)
        for lease in leases:
            lease.acknowledge()
        self._numbers["received"] += segment.rows
        self._numbers["redelivered"] += sum(pc.sum(x.redelivered).as_py() or 0 for x in leases)

    def _gathered(self, consumer: Consumer) -> list[Lease]:
        lease = consumer.receive(self._segment, WAIT)
        if lease is None:
            return []
        leases = [lease]
        rows, size = lease.rows.num_rows, lease.rows.nbytes
        until = time.monotonic() + GATHER
        most = self._task.source.leases
        assert self._segment.rows is not None
        assert self._segment.bytes is not None
        while (
            (most is None or len(leases) < most)
            and rows < self._segment.rows
            and size < self._segment.bytes
            and time.monotonic() < until
        ):
            room = Limit(rows=self._segment.rows - rows, bytes=self._segment.bytes - size)
            lease = consumer.receive(room, 0.005)
            if lease is None:
                break
            leases.append(lease)
            rows += lease.rows.num_rows
            size += lease.rows.nbytes
        return leases

    def _tell(self, consumer: Consumer) -> None:
        if time.monotonic() - self._told_at < TELL_EVERY:
            return
        self._told_at = time.monotonic()
        self._numbers["depth"] = consumer.depth()
        self._numbers["unacknowledged"] = consumer.unacknowledged()
        self._size = self._folders.size()
        self._say(self._numbers)

    def _lost(self, error: PenstockError) -> None:
        self._numbers["reconnects"] += 1
        self._numbers["connected"] = False
        self._say(self._numbers)
        pause = self._backoff.pause()
        if pause is None:
            raise ReadError(
                f"the broker could not be reached again: {error.message}",
                got=error.got,
                fix="see that the broker runs; retry_for sets how long to look for it",
            ) from error
        log.warning("a receiver lost its broker (%s); again in %.1f s", error, pause)
        self.stopping.wait(pause)

    def _say(self, what: dict[str, Any]) -> None:
        self._out.write(json.dumps(what) + "\n")
        self._out.flush()


def _watch_input(stopping: threading.Event, stdin: IO[bytes]) -> None:
    stdin.read()  # nothing more is sent: it ends when the reader does
    stopping.set()


def main() -> int:
    """Read the task, receive until the input ends."""
    # What libraries print must not get between our lines.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    length = int.from_bytes(sys.stdin.buffer.read(8), "big")
    task: Task = pickle.loads(sys.stdin.buffer.read(length))  # from our own parent
    stopping = threading.Event()
    watch = threading.Thread(target=_watch_input, args=(stopping, sys.stdin.buffer), daemon=True)
    watch.start()
    try:
        SpoolReceiver(task, out, stopping).run()
    except PenstockError as error:
        out.write(json.dumps({"error": base64.b64encode(pickle.dumps(error)).decode()}) + "\n")
        out.flush()
        return 1
    return 0


if __name__ == "__main__":
    code = 1
    try:
        code = main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)  # the thread that watches the input would hold the interpreter up
