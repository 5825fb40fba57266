"""The runtime of fused Python stages: whole Arrow batches through one stage after the other.

No Spark here: a reader, a writer and an Arrow function between Spark's own stages all run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from attrs import evolve

from penstock.contracts.coder import ObjectCoder
from penstock.contracts.envelope import PEN_FIELD, TIMESTAMP, conform, pen
from penstock.contracts.errors import RunError, TypeMismatchError
from penstock.contracts.points import reached
from penstock.contracts.transform import Bytes, Columns, Objects, Type
from penstock.pipeline.codec import Decode, Encode, LateCoder, Parse, Render
from penstock.pipeline.counts import Count, Counts
from penstock.pipeline.kernels import Failure, Kernel
from penstock.pipeline.plan import Stage
from penstock.pipeline.shapes import columns_of, decoded, full, given_by, type_of, user_columns
from penstock.pipeline.steps.batches import ObjectsKernel, RowsKernel
from penstock.pipeline.steps.step import Step
from penstock.pipeline.work import Work


class StageFailed(RunError):
    """A record failed at a node whose policy is to stop."""


class Chain:
    """Python stages over rows of one schema. Picklable (cloudpickle); made on the driver.

    Args:
        stages: What runs, in order.
        input_schema: Of the rows that come in: `UNDECODED`, or columns; `event_time` and `_pen`
            are added where they are missing.
        original: Whether `value` of the rows that come in holds the source's own bytes, to be
            kept for dead letters; by default where the rows are undecoded.
        carries: Whether rows leave with the source's bytes in `_pen`, for dead letters to come.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        input_schema: pa.Schema,
        *,
        original: bool | None = None,
        carries: bool = False,
    ) -> None:
        self.input = full(input_schema)
        self._carries = carries
        kind = type_of(self.input)
        self._original = isinstance(kind, Bytes) if original is None else original
        self._types: list[Type] = [kind]
        settled = []
        for stage in stages:
            if isinstance(stage.work, LateCoder):
                taken = user_columns(_columns(kind, stage))
                stage = evolve(stage, work=stage.work.settled(taken))
            settled.append(stage)
            kind = _after(stage, kind)
            self._types.append(kind)
        self.stages = tuple(settled)
        if isinstance(kind, Objects):
            raise TypeMismatchError(
                f"the objects ({kind}) of {self.stages[-1].node} cannot leave the process",
                fix="end the chain with their encoder",
            )
        self.schema = full(_columns(kind, self.stages[-1] if self.stages else None))
        self._kernels: list[Kernel] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kernels": None}

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows after the last stage, healthy ones first, then error rows."""
        return self.run(rows)[0]

    def run(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Counts]:
        """The rows after the last stage, and what each stage counted.

        Raises:
            StageFailed: a record failed where the policy says stop.
        """
        if self._kernels is None:
            self._kernels = [
                _kernel(stage, taken, given)
                for stage, taken, given in zip(
                    self.stages, self._types, self._types[1:], strict=False
                )
            ]
        work = Work(_complete(rows, self.input), original=self._original)
        counts: dict[str, Count] = {}
        for stage, kernel, given in zip(self.stages, self._kernels, self._types[1:], strict=True):
            reached("stage-called", node=stage.node, stage=stage.name, rows=work.count)
            counts[stage.name] = _step(stage, kernel, work) if work.count else Count()
            if not work.count:
                work.empty(_columns(given, stage))
        return work.finished(self.schema, original=self._carries), Counts(counts)


def _after(stage: Stage, kind: Type) -> Type:
    if stage.kind == "decode":
        known = stage.gives
        return known if _is_known(known) else decoded(stage.work)
    if stage.kind == "encode":
        return Bytes()
    return given_by(stage.work, kind)


def _is_known(kind: Type) -> bool:
    return isinstance(kind, Objects) or (isinstance(kind, Columns) and kind.schema is not None)


def _columns(kind: Type, stage: Stage | None) -> pa.Schema:
    columns = columns_of(kind)
    if columns is None:
        raise TypeMismatchError(
            "what the step gives is not known before it runs",
            who=stage.node if stage else None,
            expected="columns with names and types",
            got=str(kind),
            fix='give the step schema="..."',
        )
    return columns


def _complete(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a source or of Spark in the form chains work on."""
    if "event_time" not in rows.schema.names:
        rows = rows.append_column(
            pa.field("event_time", TIMESTAMP), pa.nulls(rows.num_rows, TIMESTAMP)
        )
    if "_pen" not in rows.schema.names:
        rows = rows.append_column(PEN_FIELD, pen(rows.num_rows))
    return conform(rows, schema)


def _kernel(stage: Stage, taken: Type, given: Type) -> Kernel:
    work = stage.work
    if stage.kind == "decode":
        if isinstance(work, ObjectCoder):
            return Parse(work)
        return Decode(work, _columns(given, stage))
    if stage.kind == "encode":
        if isinstance(work, ObjectCoder):
            return Render(work)
        return Encode.of(work, _columns(taken, stage))
    if isinstance(work, Step):
        return work.kernel(_columns(taken, stage), _columns(given, stage))
    if work.grain == "objects":
        return ObjectsKernel(work)
    return RowsKernel(work.apply, _columns(given, stage), type(work).__name__)


def _step(stage: Stage, kernel: Kernel, work: Work) -> Count:
    rows_in = work.count
    outcome = kernel(work, stage.policy)
    failures = outcome.failures
    action = stage.policy.action
    if failures and action == "stop":
        raise _stopped(stage, work, *next(iter(failures.items())))
    if failures and action == "dead-letter":
        told = {row: (failures[row].error, failures[row].attempts) for row in sorted(failures)}
        work.fail(stage.node, told)
    work.advance(
        outcome.rows, outcome.origin, key=outcome.key, meta=outcome.pen, objects=outcome.objects
    )
    if outcome.pen is None and outcome.origin is not None and outcome.rows.num_rows > 0:
        work.number_siblings(outcome.origin)
    return Count(
        rows_in=rows_in,
        rows_out=work.count,
        errors=len(failures) if action == "dead-letter" else 0,
        skipped=len(failures) if action == "skip" else 0,
        retried=outcome.retried,
    )


def _stopped(stage: Stage, work: Work, row: int, failure: Failure) -> StageFailed:
    stamp = work.pen().field("stamp")[row].as_py()
    where = "" if not stamp else f", record {stamp['origin']}/{stamp['part']}/{stamp['position']}"
    error = StageFailed(
        f"a record failed: {type(failure.error).__name__}: {failure.error}",
        who=f"{stage.node} ({stage.what}{where})",
        got=f"{failure.attempts} attempts" if failure.attempts > 1 else None,
        fix='mend the function or the data, or declare on_error="dead-letter"',
    )
    error.__cause__ = failure.error
    return error
