"""`map_batches`, and installed transforms over rows or objects: whole batches at a time."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from penstock.coders.ddl import parse_ddl
from penstock.contracts import Columns, Transform, Type, connector, option
from penstock.contracts.envelope import PEN_FIELD, conform
from penstock.contracts.errors import SchemaError
from penstock.pipeline.functions import Function
from penstock.pipeline.graph import Policy
from penstock.pipeline.kernels import Kernel, Outcome, checked_origin, isolated
from penstock.pipeline.shapes import with_event_time
from penstock.pipeline.steps.step import Step
from penstock.pipeline.work import Work


class RowsKernel:
    """Runs a function over batches that hold `_pen`, and finds out what it did to the rows."""

    def __init__(self, function: Any, gives: pa.Schema, who: str) -> None:
        self._function = function
        self._gives = gives
        self._with_pen = gives.append(PEN_FIELD)
        self._who = who

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Whole first, then halves."""
        outcome = isolated(work.with_pen(), self._attempt, policy)
        rows = outcome.rows
        at = rows.schema.get_field_index("_pen")
        if at >= 0:
            outcome.pen = rows.column(at)
            outcome.rows = rows.remove_column(at)
        return outcome

    def _attempt(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        made = self._function(batch)
        origin = None
        if isinstance(made, tuple):
            made, origin = made
        if isinstance(made, pa.Table):
            made = concat_table(made)
        if not isinstance(made, pa.RecordBatch):
            raise SchemaError(
                f"{self._who} did not return rows",
                expected="a pyarrow RecordBatch, or (RecordBatch, origin)",
                got=type(made).__name__,
            )
        return self._completed(batch, made, origin)

    def _completed(
        self, batch: pa.RecordBatch, made: pa.RecordBatch, origin: Any
    ) -> tuple[pa.RecordBatch, Any]:
        if origin is not None:
            origin = checked_origin(origin, batch.num_rows, made.num_rows, self._who)
        names = made.schema.names
        kept = "_pen" in names and origin is None
        if not kept and origin is None and made.num_rows != batch.num_rows:
            raise SchemaError(
                f"{self._who} changed the number of rows without saying which are which",
                expected=f"{batch.num_rows} rows, or the column _pen kept, or (rows, origin)",
                got=f"{made.num_rows} rows without _pen",
                fix="keep the column _pen, or return (rows, origin)",
            )
        self._refuse_extra(names)
        if "event_time" not in names:
            made = self._timed(batch, made, origin)
        if kept and not _same(made.column("_pen"), batch.column("_pen")):
            return conform(made, self._with_pen), None
        return conform(made, self._gives), origin

    def _timed(self, batch: pa.RecordBatch, made: pa.RecordBatch, origin: Any) -> pa.RecordBatch:
        times = batch.column("event_time")
        if origin is not None:
            times = times.take(origin)
        if len(times) != made.num_rows:
            raise SchemaError(
                f"{self._who} dropped the column event_time along with some rows",
                expected="event_time kept, or (rows, origin)",
                got=", ".join(made.schema.names),
            )
        return made.append_column(batch.schema.field("event_time"), times)

    def _refuse_extra(self, names: list[str]) -> None:
        extra = [n for n in names if n != "_pen" and n not in self._gives.names]
        if extra:
            raise SchemaError(
                f"{self._who} returned columns that its output does not have: {', '.join(extra)}",
                expected=", ".join(self._gives.names),
                fix='give the step schema="..." with all columns it returns',
            )


def concat_table(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    batches = table.combine_chunks().to_batches()
    if batches:
        return batches[0]
    return pa.RecordBatch.from_arrays(
        [pa.array([], f.type) for f in table.schema], schema=table.schema
    )


def _same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two `_pen` columns are the same memory: the function did not touch them."""
    if one is other:
        return True
    if len(one) != len(other) or one.offset != other.offset or not one.type.equals(other.type):
        return False
    return [b and b.address for b in one.buffers()] == [b and b.address for b in other.buffers()]


class ObjectsKernel:
    """Runs an installed transform over the Python objects at hand."""

    def __init__(self, transform: Transform) -> None:
        self._transform = transform

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Whole first, then halves; a None is a dropped record."""
        assert work.objects is not None
        objects = work.objects
        made: dict[int, Any] = {}
        numbered = pa.RecordBatch.from_arrays(
            [pa.array(range(len(objects)), pa.int64())], names=["n"]
        )

        def attempt(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
            numbers = batch.column("n").to_pylist()
            results = self._transform.apply([objects[n] for n in numbers])
            if len(results) != len(numbers):
                raise SchemaError(
                    f"{type(self._transform).__name__} returned another number of objects",
                    expected=str(len(numbers)),
                    got=str(len(results)),
                )
            made.update(zip(numbers, results, strict=True))
            return batch, None

        tried = isolated(numbered, attempt, policy)
        good = [n for n in range(len(objects)) if n not in tried.failures and made[n] is not None]
        whole = len(good) == len(objects)
        origin = None if whole else pa.array(good, pa.int64())
        rows = work.payload if origin is None else work.payload.take(origin)
        kept = [made[n] for n in good]
        return Outcome(rows, origin, tried.failures, objects=kept, retried=tried.retried)


@connector
class MapBatches(Step):
    """A function over whole Arrow batches."""

    main: ClassVar[str | None] = "function"

    function: Function = option(
        doc="Gets a pyarrow RecordBatch (with `_pen`), returns one; with another number of rows "
        "it keeps `_pen` or returns (rows, origin), where origin names each row's input row."
    )
    schema: str | None = option(
        default=None, doc="The columns it returns, where they differ from what it gets."
    )
    deterministic: bool = option(
        default=False, doc="True if the same batch always gives the same result."
    )

    def gives(self, input: Type) -> Type:
        """Declared, or what it got."""
        return input if self.schema is None else Columns(with_event_time(parse_ddl(self.schema)))

    def kernel(self, schema: pa.Schema, gives: pa.Schema) -> Kernel:
        """Once per batch."""
        return RowsKernel(self.function.load(), gives, f"the function {self.function.name}")
