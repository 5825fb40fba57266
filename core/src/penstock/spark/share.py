"""How one task writes its share, and tries again when the sink does not answer.

A share is written anew from its first row, by a new writer, since nobody knows what a lost server
took. That needs the rows once more: a task keeps them while they are few. What is larger fails,
and the driver has the whole share computed again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
from attrs import evolve, frozen
from pyspark import TaskContext

from penstock.contracts import points
from penstock.contracts.envelope import conform
from penstock.contracts.errors import EphemeralWriteError, WriteError
from penstock.contracts.sink import Batch, Receipt, Sink
from penstock.pipeline.graph import Policy
from penstock.pipeline.kernels import is_ephemeral, waits
from penstock.spark.failures import told
from penstock.spark.settling import settle

MOST_KEPT = 32 * 2**20
"""Bytes of a share that a task keeps to write them again."""

_ATTEMPTS_APART = 1000


@frozen
class Written:
    """What a task wrote, and how often it had to begin anew."""

    receipt: Receipt
    retried: int = 0


class Again:
    """Rows that can be gone through once more while they are few."""

    def __init__(self, rows: Iterable[pa.RecordBatch], most: int = MOST_KEPT) -> None:
        self._rows = iter(rows)
        self._kept: list[pa.RecordBatch] | None = []
        self._room = most
        self.broken = False

    @property
    def possible(self) -> bool:
        """Whether all rows given so far can be given again."""
        return self._kept is not None and not self.broken

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from tuple(self._kept or ())
        while True:
            try:
                rows = next(self._rows)
            except StopIteration:
                return
            except BaseException:
                self.broken = True
                raise
            self._keep(rows)
            yield rows

    def _keep(self, rows: pa.RecordBatch) -> None:
        if self._kept is None:
            return
        self._room -= rows.nbytes
        if self._room < 0:
            self._kept = None
        else:
            self._kept.append(rows)


def write_share(
    who: str,
    sink: Sink,
    batch: Batch,
    schema: pa.Schema,
    rows: Iterable[pa.RecordBatch],
    policy: Policy | None = None,
) -> Written:
    """Write what one task got; on any failure nothing of an attempt stays visible.

    Raises:
        EphemeralWriteError: the sink did not answer, and only the driver can try again.
        WriteError: it failed for good, or too often.
    """
    settle()
    task = TaskContext.get()
    partition = task.partitionId() if task else 0
    attempt = task.attemptNumber() if task else 0
    again, pauses = Again(rows), waits(policy or Policy())
    place = f"batch {batch.number}, partition {partition}"
    with told(who, sink, "writing", WriteError, lambda: place):
        tries = 0
        while True:
            try:
                number = attempt + tries * _ATTEMPTS_APART
                receipt = _write(sink, batch, partition, number, schema, again)
                return Written(evolve(receipt, partition=partition), tries)
            except Exception as error:
                if again.broken or not is_ephemeral(error):
                    raise
                if not again.possible:
                    raise _lost(error, "the share is too large to be kept by its task") from error
                if tries == len(pauses):
                    raise _given_up(error, tries + 1) from error
                time.sleep(pauses[tries])
                tries += 1


def _write(
    sink: Sink, batch: Batch, partition: int, attempt: int, schema: pa.Schema, rows: Again
) -> Receipt:
    writer = sink.open(batch, partition, attempt, schema)
    try:
        for each in rows:
            writer.write(conform(each, schema))
            points.reached("mid-write", batch=batch.number, node=batch.ctx.node)
        return writer.close()
    except BaseException:
        writer.abort()
        raise


def _lost(error: Exception, why: str) -> EphemeralWriteError:
    return EphemeralWriteError(f"the sink did not answer: {_said(error)}", got=why)


def _given_up(error: Exception, tries: int) -> WriteError:
    return WriteError(
        f"the sink did not answer in {tries} tries: {_said(error)}",
        fix="see to the server, then start again; or raise retries and backoff (on_error)",
    )


def _said(error: Exception) -> str:
    return getattr(error, "message", None) or f"{type(error).__name__}: {error}"
