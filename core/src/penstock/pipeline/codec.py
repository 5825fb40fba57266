"""Coders as kernels: bytes to columns or objects, and back."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import frozen

from penstock.contracts.coder import Coder, ObjectCoder, RowError
from penstock.contracts.envelope import TIMESTAMP, conform
from penstock.contracts.errors import CodecError
from penstock.contracts.options import parse
from penstock.pipeline.graph import Args, Policy
from penstock.pipeline.kernels import Failure, Outcome, isolated, kept, waits
from penstock.pipeline.shapes import BYTES, user_columns
from penstock.pipeline.work import Work


def _failure(error: RowError, attempts: int) -> Failure:
    raised = CodecError(error.message)
    raised.penstock_kind = error.kind  # type: ignore[attr-defined]
    return Failure(raised, attempts)


class _Tries:
    """Asks a coder until no error in its answer is ephemeral any more, and counts."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.retried = 0

    def settle(self, call: Any) -> tuple[Any, int]:
        """The answer, and the tries it took."""
        pauses = waits(self._policy)
        attempt = 0
        while True:
            answer = call()
            errors = answer[1] if isinstance(answer, tuple) else answer.errors
            attempt += 1
            if attempt > len(pauses) or not any(error.ephemeral for error in errors):
                return answer, attempt
            self.retried += 1
            time.sleep(pauses[attempt - 1])


@frozen
class Decode:
    """`value` to columns; `event_time` is kept unless the coder gives its own."""

    coder: Coder
    schema: pa.Schema

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Decode the whole column; a coder that raises is tried on halves."""
        errors: dict[int, Failure] = {}
        asking = _Tries(policy)
        whole = work.payload

        def attempt(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
            start = batch.column("value").offset - whole.column("value").offset
            found, tries = asking.settle(lambda: self.coder.decode(batch.column("value")))
            for error in found.errors:
                errors[start + error.row] = _failure(error, tries)
            times = batch.column("event_time")
            if found.origin is not None:
                times = times.take(found.origin)
            return self._in_shape(found.rows, times), found.origin

        outcome = isolated(whole, attempt, policy)
        outcome.failures.update(errors)
        outcome.retried += asking.retried
        return outcome

    def _in_shape(self, rows: pa.RecordBatch, times: pa.Array) -> pa.RecordBatch:
        own = "event_time" in rows.schema.names
        if not own:
            rows = rows.append_column(pa.field("event_time", TIMESTAMP), times)
        return conform(rows, self.schema)


@frozen
class Encode:
    """Columns to `value`, one each."""

    coder: Coder
    columns: tuple[str, ...]

    @classmethod
    def of(cls, coder: Coder, taken: pa.Schema) -> Encode:
        """Encode the user's columns of rows of this schema."""
        return cls(coder, tuple(user_columns(taken).names))

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Encode the whole batch; a coder that raises is tried on halves."""
        times = work.payload.column("event_time")
        errors: dict[int, Failure] = {}
        asking = _Tries(policy)
        numbered = work.payload.append_column("", pa.array(np.arange(work.count)))

        def attempt(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
            numbers = batch.column(batch.num_columns - 1)
            rows = batch.select(list(self.columns))
            found, tries = asking.settle(lambda: self.coder.encode(rows))
            return _coded(found.values, found.errors, numbers, times, errors, tries)

        outcome = isolated(numbered, attempt, policy)
        outcome.failures.update(errors)
        outcome.retried += asking.retried
        return outcome


def _coded(
    values: pa.Array,
    bad: tuple[RowError, ...],
    numbers: pa.Array,
    times: pa.Array,
    errors: dict[int, Failure],
    tries: int,
) -> tuple[pa.RecordBatch, Any]:
    for error in bad:
        errors[numbers[error.row].as_py()] = _failure(error, tries)
    good = kept(len(values), dict.fromkeys((e.row for e in bad), Failure(CodecError(""))))
    if good is not None:
        values, numbers = values.take(good), numbers.take(good)
    whole = good is None and len(values) == len(times)
    mine = times if whole else times.take(numbers)
    rows = pa.RecordBatch.from_arrays([values.cast(pa.binary()), mine], schema=BYTES)
    return rows, good


@frozen
class Parse:
    """`value` to Python objects, which travel beside their bytes."""

    coder: ObjectCoder

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Parse the whole column; rows without a value go no further."""
        (objects, bad), tries = _Tries(policy).settle(
            lambda: self.coder.parse(work.payload.column("value"))
        )
        failures = {error.row: _failure(error, tries) for error in bad}
        good = [n for n, found in enumerate(objects) if found is not None and n not in failures]
        if len(good) == len(objects):
            return Outcome(work.payload, objects=objects, retried=tries - 1)
        origin = pa.array(good, pa.int64())
        rows = work.payload.take(origin)
        return Outcome(
            rows, origin, failures, objects=[objects[n] for n in good], retried=tries - 1
        )


@frozen
class Render:
    """Python objects to `value`."""

    coder: ObjectCoder

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Render all objects at hand."""
        assert work.objects is not None
        objects = work.objects
        found, tries = _Tries(policy).settle(lambda: self.coder.render(objects))
        failures = {error.row: _failure(error, tries) for error in found.errors}
        good = kept(len(objects), failures)
        values, times = found.values.cast(pa.binary()), work.payload.column("event_time")
        if good is not None:
            values, times = values.take(good), times.take(good)
        rows = pa.RecordBatch.from_arrays([values, times], schema=BYTES)
        return Outcome(rows, good, failures, retried=tries - 1)


@frozen
class LateCoder:
    """An encoder that takes its schema from the rows it is given."""

    cls: type[Coder]
    options: Args
    who: str

    def settled(self, schema: Any) -> Coder:
        """The encoder for rows of this schema."""
        return parse(self.cls, {**self.options, "schema": schema}, who=self.who)
