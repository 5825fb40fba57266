"""Receivers on executors: a query of its own, whose tasks receive into a spool that all see.

It gives no rows. Another query, with `spool=read`, makes batches of the segments. Each task takes
messages for a while, as the receiver processes of the driver's host do for ever, and shows first
that the folder it writes to is the one that is read.
"""

from __future__ import annotations

import json
import socket
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from penstock.contracts.durable import sync_folder
from penstock.contracts.errors import ReadError
from penstock.contracts.queue import QueueSource
from penstock.contracts.source import Context
from penstock.spark.failures import speaker, told
from penstock.spark.queues.child import SpoolReceiver, Task
from penstock.spark.queues.options import QueueOptions
from penstock.spark.queues.spool import Folders
from penstock.spark.source import Finish

FILL_FOR = 30.0
"""How long one task receives. What it has fetched ahead goes back at its end: seldom is better."""
KEPT = 10


class Filling(InputPartition):
    """One receiver's turn; all that a task knows of the reader that planned it."""

    def __init__(self, number: int, nonce: str, until_quiet: bool) -> None:
        super().__init__(number)
        self.nonce = nonce
        self.until_quiet = until_quiet


class FillReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Every batch is a turn of all receivers."""

    def __init__(
        self, source: QueueSource, options: QueueOptions, ctx: Context, finish: Finish
    ) -> None:
        assert options.state is not None, "the options say so themselves"
        self.folder = options.state
        self.source = source
        self.options = options
        self.ctx = ctx
        self.finish = finish
        self._available_now = False
        self._turns = 0

    def initialOffset(self) -> dict[str, Any]:
        """Before the first turn."""
        return {"turn": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """One turn more; with AvailableNow one turn that ends when the queue is empty."""
        if self._available_now and self._turns:
            return start
        self._turns += 1
        return {"turn": int(start["turn"]) + 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """As many as there are receivers, each with the proof that it sees the folder."""
        with told(speaker(self.ctx.node), self.source, "planning"):
            nonce = marked(self.folder)
        count = self.options.receivers
        return [Filling(number, nonce, self._available_now) for number in range(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: receive into segments; no rows for Spark."""
        if isinstance(partition, Filling):
            with told(speaker(self.ctx.node), self.source, "receiving"):
                look(self.folder, partition.nonce)
                self._receive(partition)
        yield from ()

    def prepareForTriggerAvailableNow(self) -> None:
        """End when the queue is empty."""
        self._available_now = True

    def getDefaultReadLimit(self) -> ReadLimit:
        """A turn is a turn."""
        return ReadAllAvailable()

    def _receive(self, part: Filling) -> None:
        turn = Turn(FILL_FOR, self.options.quiet if part.until_quiet else None)
        task = Task(self.source, self.options, self.ctx, part.value, self.folder)
        SpoolReceiver(task, turn, turn).run()


class Turn:
    """When a receiver's turn is over: by the clock, or, with `quiet`, when nothing comes any more.

    It hears the numbers that the receiver tells.
    """

    def __init__(self, seconds: float, quiet: float | None) -> None:
        self._began = self._since = time.monotonic()
        self._seconds = seconds
        self._quiet = quiet
        self._received = 0

    def is_set(self) -> bool:
        """Whether to stop."""
        now = time.monotonic()
        if self._quiet is None:
            return now - self._began > self._seconds
        return now - self._since > self._quiet

    def wait(self, timeout: float) -> None:
        """Pause before the broker is looked for again."""
        self._since = time.monotonic() + timeout  # away is not quiet
        time.sleep(timeout)

    def write(self, line: str) -> None:
        """The receiver's numbers, as a line of JSON."""
        said = json.loads(line)
        if said["received"] != self._received or said["depth"] or not said["connected"]:
            self._received, self._since = said["received"], time.monotonic()

    def flush(self) -> None:
        """Nothing is held back."""


def marked(location: str) -> str:
    """Leave a mark in the folder, for those who are to see it; the newest few are kept."""
    folder = Folders(location) / "marks"
    folder.mkdir(exist_ok=True)
    nonce = uuid.uuid4().hex
    for old in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)
    (folder / nonce).touch()
    sync_folder(folder)
    return nonce


def look(location: str, nonce: str) -> None:
    """See that the mark is here.

    Raises:
        ReadError: this host has another folder of that name.
    """
    folder = Folders(location) / "marks"
    if not (folder / nonce).exists():
        raise ReadError(
            "an executor does not see the spool's folder",
            expected=f"the driver's mark in {folder}",
            got=f"none on {socket.gethostname()}",
            fix="set state to a folder on a filesystem that the driver and all executors share, "
            "or receive on the driver's host (spool=both)",
        )
