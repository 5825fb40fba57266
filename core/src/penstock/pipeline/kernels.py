"""Running a user's code over rows so that one bad record harms no other.

A kernel is what a stage becomes once its input schema is known: a callable from the rows at hand
to an `Outcome`. Whole batches are tried first; the guilty rows are found only when that fails.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from attrs import define, field, frozen

from penstock.contracts.errors import SchemaError
from penstock.pipeline.graph import Policy
from penstock.pipeline.work import Work

T = TypeVar("T")


@frozen
class Failure:
    """Why one row failed, after how many tries."""

    error: BaseException
    attempts: int = 1


@define
class Outcome:
    """What became of the rows of a stage.

    Attributes:
        rows: The output's own columns, without `_pen`.
        origin: For each output row its input row; None: row i is row i.
        failures: By input row; such a row gives no output.
        key: New record keys, one per output row.
        pen: A whole `_pen` column that replaces the old one, one per output row.
        objects: Python objects, one per output row, where the stage gives objects.
        retried: Tries beyond the first.
    """

    rows: pa.RecordBatch
    origin: pa.Array | None = None
    failures: dict[int, Failure] = field(factory=dict)
    key: pa.Array | None = None
    pen: pa.Array | None = None
    objects: list[Any] | None = None
    retried: int = 0


class Kernel(Protocol):
    """A stage with its input schema known; lives in one process."""

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Do the stage's work on the rows at hand."""


def is_ephemeral(error: BaseException) -> bool:
    """Whether trying again may help."""
    return bool(getattr(error, "ephemeral", False)) or isinstance(
        error, ConnectionError | TimeoutError
    )


def waits(policy: Policy) -> list[float]:
    """Seconds to wait before each retry: doubling, bounded, with full jitter."""
    return [
        random.uniform(0.5, 1.0) * min(policy.backoff * 2**n, policy.longest)
        for n in range(policy.retries)
    ]


def retrying(call: Callable[[], T], policy: Policy) -> tuple[T, int]:
    """The result of a call and the number of tries; retries what is ephemeral.

    Raises:
        Exception: the last error, with `penstock_attempts` tries noted on it.
    """
    pauses = waits(policy)
    attempt = 0
    while True:
        attempt += 1
        try:
            return call(), attempt
        except Exception as error:
            if not is_ephemeral(error) or attempt > len(pauses):
                error.penstock_attempts = attempt  # type: ignore[attr-defined]
                raise
            time.sleep(pauses[attempt - 1])


def attempts_of(error: BaseException) -> int:
    """How many tries `retrying` made before this error."""
    return int(getattr(error, "penstock_attempts", 1))


FAILED = object()
"""Stands in a list of results for a record that failed."""


def each(
    function: Callable[[Any], Any], records: list[Any], policy: Policy
) -> tuple[list[Any], dict[int, Failure], int]:
    """The function's result for each record, failures by index, and the number of retries.

    A failed record leaves `FAILED` in its place.
    """
    results: list[Any] = []
    failures: dict[int, Failure] = {}
    retried = 0
    count = len(records)
    calls = map(function, records)
    while len(results) < count:
        try:
            # Keeps what came before an error, and goes on after it: no try block per record.
            results.extend(calls)
            if len(results) < count:
                raise RuntimeError("the function raised StopIteration")
        except Exception as error:
            at = len(results)
            outcome: Any = FAILED
            if is_ephemeral(error) and policy.retries:
                try:
                    again = Policy(
                        policy.action, policy.retries - 1, policy.backoff, policy.longest
                    )
                    time.sleep(waits(policy)[0])
                    outcome, tries = retrying(lambda at=at: function(records[at]), again)  # type: ignore[misc]
                    retried += tries
                except Exception as last:
                    retried += attempts_of(last)
                    failures[at] = Failure(last, attempts_of(last) + 1)
            else:
                failures[at] = Failure(error)
            results.append(outcome)
    return results, failures, retried


_NOTHING = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
Attempt = Callable[[pa.RecordBatch], tuple[pa.RecordBatch, Any]]


def isolated(batch: pa.RecordBatch, attempt: Attempt, policy: Policy) -> Outcome:
    """Run a function over a whole batch; if it raises, over halves, down to the guilty rows.

    `attempt` returns rows and, where rows were dropped or multiplied, their origins. Where all
    rows fail, the outcome's rows have no columns.
    """
    try:
        (rows, origin), tries = retrying(lambda: attempt(batch), policy)
        return Outcome(rows, origin, retried=tries - 1)
    except Exception as error:
        first, tries = error, attempts_of(error)
    if batch.num_rows == 1:
        return Outcome(_NOTHING, _no_rows(), {0: Failure(first, tries)}, retried=tries - 1)
    return _bisect(batch, attempt, tries)


def _bisect(batch: pa.RecordBatch, attempt: Attempt, tries: int) -> Outcome:
    done: list[tuple[pa.RecordBatch, np.ndarray[Any, Any]]] = []
    failures: dict[int, Failure] = {}
    middle = batch.num_rows // 2
    waiting = [(middle, batch.num_rows), (0, middle)]
    while waiting:
        start, stop = waiting.pop()
        try:
            rows, origin = attempt(batch.slice(start, stop - start))
            at = np.arange(rows.num_rows) if origin is None else np.asarray(origin)
            done.append((rows, at + start))
        except Exception as error:
            if stop - start == 1:
                failures[start] = Failure(error, tries)
            else:
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]
    if not done:
        return Outcome(_NOTHING, _no_rows(), failures, retried=tries - 1)
    rows = concat([rows for rows, _ in done])
    origin = pa.array(np.concatenate([at for _, at in done]), pa.int64())
    return Outcome(rows, origin, failures, retried=tries - 1)


def _no_rows() -> pa.Array:
    return pa.array([], pa.int64())


def concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of one schema as one batch."""
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches)


def kept(count: int, without: dict[int, Failure]) -> pa.Array | None:
    """The row numbers that did not fail; None if none failed."""
    if not without:
        return None
    mask = np.ones(count, dtype=bool)
    mask[list(without)] = False
    return pa.array(np.flatnonzero(mask), pa.int64())


def checked_origin(origin: Any, rows_in: int, rows_out: int, who: str) -> pa.Array:
    """Origins as int64, checked against the numbers of rows.

    Raises:
        SchemaError: they do not fit.
    """
    if isinstance(origin, pa.ChunkedArray):
        origin = origin.combine_chunks()
    array = origin if isinstance(origin, pa.Array) else pa.array(origin, pa.int64())
    numbers = array.cast(pa.int64())
    found = np.asarray(numbers)
    if len(found) != rows_out or (len(found) and not 0 <= found.min() <= found.max() < rows_in):
        raise SchemaError(
            f"{who} returned origins that do not fit its rows",
            expected=f"{rows_out} row numbers below {rows_in}",
            got=f"{len(found)} row numbers",
        )
    return numbers
