"""Where records go. Subclass `Sink` and `Writer`, and say what they promise.

The core calls `begin` on the driver, `open`, `write` and `close` on workers, then `finish` on
the driver. A replayed batch has the same key: (query, node, number, partition).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
from attrs import field, frozen

from penstock.contracts.options import Configured
from penstock.contracts.source import Context


@frozen
class Promise:
    """What a sink keeps.

    Attributes:
        replay: `idempotent`: the same batch again changes nothing; `append`: it may double.
        atomic: What becomes visible at once: a `record`, a `task`'s share, or the whole `batch`.
    """

    replay: Literal["append", "idempotent"] = "append"
    atomic: Literal["record", "task", "batch"] = "record"


@frozen
class Batch:
    """Which batch is written; the same value for each attempt at it.

    Attributes:
        ctx: Pipeline, node, query and state folder.
        number: The micro-batch's number; 0 for a batch write, whose query id is unique.
        partitions: How many tasks write it, if known; fixed before the first write.
        overwrite: The user asked to replace what is there (a batch write's `overwrite` mode).
    """

    ctx: Context
    number: int
    partitions: int | None = None
    overwrite: bool = False

    @property
    def key(self) -> str:
        """A name for this batch of this sink that no other has."""
        return f"{self.ctx.query}/{self.ctx.node}/{self.number}"


@frozen
class Rejected:
    """Rows a sink refused one by one, to become dead letters.

    Attributes:
        rows: The refused rows, as they were given to `write`; with `_pen`, where `accepts` keeps
            it: from there a dead letter has the record's key, id, stamp and original bytes.
        errors: One sentence per row.
    """

    rows: pa.RecordBatch
    errors: list[str]


@frozen
class Receipt:
    """What one task wrote; it travels from worker to driver.

    Attributes:
        rows: How many rows this task's share holds.
        payload: What `finish` needs to publish it; JSON-able.
        rejected: Rows refused one by one.
        partition: Filled in by the core.
    """

    rows: int
    payload: dict[str, Any] = field(factory=dict)
    rejected: tuple[Rejected, ...] = ()
    partition: int = -1


class Sink(Configured):
    """A place that takes rows. An attrs-frozen value of options, picklable, no live handle."""

    @abstractmethod
    def promise(self) -> Promise:
        """What this sink keeps with these options. Pure; called at analysis."""

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """What it will be given for rows of `schema`; the core casts to it.

        Called at analysis, with or without `_pen`. Pure.

        Raises:
            SchemaError: it cannot take such rows; the message says what it can.
        """
        return schema

    def refuses(self) -> bool:
        """Whether it may refuse rows one by one (`Receipt.rejected`). Pure; called at analysis.

        Where no later step or sink may, records are not burdened with their original bytes.
        """
        return True

    def done(self, batch: Batch) -> bool:
        """Whether the batch is already finished for good, so that it must be skipped. SNK-01.

        On the driver or a worker, at any time; reads only. A sink that keeps no record of
        finished batches says False and recognises them share by share, or not at all.
        """
        return False

    def begin(self, batch: Batch) -> bool:
        """Get ready for a batch. On the driver, before each attempt at it; True: skip it.

        May sweep what dead attempts left. A plain Spark stream write cannot call it (Spark
        tells the driver nothing before its tasks): `finish` must bear leftovers too.
        """
        return self.done(batch)

    @abstractmethod
    def open(self, batch: Batch, partition: int, attempt: int, schema: pa.Schema) -> Writer:
        """A writer of one task's share. On a worker; attempts may overlap (SNK-04)."""

    def finish(self, batch: Batch, receipts: Sequence[Receipt]) -> None:
        """Make the batch visible. On the driver, once all tasks have closed.

        May run again for the same batch after a crash, with receipts of a new attempt; must
        then leave one copy where `idempotent` is promised.
        """

    def discard(self, batch: Batch, receipts: Sequence[Receipt]) -> None:
        """The batch failed: remove what its tasks left. May race tasks that still run."""

    def check(self) -> None:
        """See that the place answers and may be written, within seconds; leaves nothing."""


class Writer(ABC):
    """Writes one task's share. One thread; `close` or `abort` comes last, exactly one of them."""

    @abstractmethod
    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows; may buffer within a bound and block for back-pressure."""

    @abstractmethod
    def close(self) -> Receipt:
        """All rows were given: make them durable (not necessarily visible), tell what was done.

        Raises:
            WriteError: they are not; nothing of this attempt may then stay visible.
        """

    @abstractmethod
    def abort(self) -> None:
        """Give up: leave no residue that a reader could see. Must not raise for a lost server."""
