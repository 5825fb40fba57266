"""Rows on their way to tasks, inside Spark's input partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.contracts.envelope import ENVELOPE, conform
from penstock.contracts.errors import ReadError
from penstock.contracts.source import Limit
from penstock.spark.queues.ledger import fitting, row_sizes
from penstock.spark.source import Finish, Tallied

CHUNK = 8 * 2**20
"""Spark refuses partitions of 128 MiB; small ones also spread over tasks."""
LARGEST = 100 * 2**20


class Carried(InputPartition):
    """Rows that travel inside the partition, as an Arrow stream.

    A buffer of Arrow's is pickled from where it is, bytes would be a copy more.
    """

    def __init__(self, index: int, stream: pa.Buffer) -> None:
        super().__init__(index)
        self.stream = stream

    def __repr__(self) -> str:
        return f"Carried({self.value}, {self.stream.size} bytes)"

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows again, on the worker."""
        yield from pa.ipc.open_stream(self.stream)


def carried(batches: Sequence[pa.RecordBatch], parts: int) -> list[InputPartition]:
    """Rows as partitions of bounded size, at least `parts` of them if there are rows enough.

    Raises:
        ReadError: a message too large for Spark to carry.
    """
    chunks = [chunk for rows in batches for chunk in _chunks(rows)]
    total = sum(chunk.num_rows for chunk in chunks)
    if total == 0:
        return []
    per_part = -(-total // parts)
    made: list[InputPartition] = []
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for chunk in _at_most(chunks, per_part):
        weight = chunk.nbytes
        if waiting and (rows + chunk.num_rows > per_part or size + weight > CHUNK):
            made.append(Carried(len(made), _stream(waiting)))
            waiting, rows, size = [], 0, 0
        waiting.append(chunk)
        rows += chunk.num_rows
        size += weight
    made.append(Carried(len(made), _stream(waiting)))
    return made


def finished(batches: Iterator[pa.RecordBatch], finish: Finish) -> Iterator[pa.RecordBatch]:
    """Rows as Spark wants them: through the chain, in exactly the declared schema.

    A chain that counts says its counts in a last row.
    """
    counts: Any = None
    for rows in batches:
        if isinstance(finish, Tallied):
            done, more = finish.run(rows)
            counts = more if counts is None else counts + more
        else:
            done = finish.apply(rows)
        if done.num_rows:
            yield conform(done, finish.schema)
    if isinstance(finish, Tallied) and counts is not None:
        yield finish.tally(counts)


def _chunks(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    sizes = row_sizes(rows)
    if len(sizes) and int(sizes.max()) > LARGEST:
        raise ReadError(
            "a message is too large to travel through Spark",
            expected=f"at most {LARGEST} bytes",
            got=f"{int(sizes.max())} bytes, id {rows.column('id')[int(np.argmax(sizes))]}",
            fix="take it out of the queue, or send large payloads by reference",
        )
    at = 0
    while at < rows.num_rows:
        count = fitting(sizes[at:], Limit(bytes=CHUNK))
        yield rows.slice(at, count)
        at += count


def _at_most(chunks: Sequence[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for chunk in chunks:
        for at in range(0, chunk.num_rows, rows):
            yield chunk.slice(at, rows)


def _stream(batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ENVELOPE) as writer:
        for rows in batches:
            writer.write_batch(rows)
    return sink.getvalue()
