"""Steps whose function sees one record at a time: map, filter, flat_map, peek."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, ClassVar, is_typeddict

import numpy as np
import pyarrow as pa

from penstock.coders.ddl import parse_ddl
from penstock.contracts import Anything, Columns, Type, at_least, connector, option
from penstock.contracts.errors import SchemaError
from penstock.pipeline.annotations import Signature, fields_of, schema_of, signature
from penstock.pipeline.functions import Function
from penstock.pipeline.graph import Policy
from penstock.pipeline.kernels import FAILED, Failure, Kernel, Outcome, each
from penstock.pipeline.records import Columnar, Reader, dicts_of, objects_of, values
from penstock.pipeline.shapes import user_columns, with_event_time
from penstock.pipeline.steps.step import Step
from penstock.pipeline.work import Work

_META = "Records are dicts that also hold `event_time` and `_pen` (key, headers, id)."
_SCHEMA = (
    "The columns of what the function returns, where they differ from what it gets and no "
    "annotation says so."
)


class PerRecord(Step):
    """A step with a function over one record: a dict, or what its parameter is annotated with."""

    main: ClassVar[str | None] = "function"
    _several_results: ClassVar[bool] = False

    function: Function
    meta: bool

    def signature(self) -> Signature:
        """What the function's annotations say."""
        return signature(self.function.load(), several=self._several_results)

    def wants(self) -> Type:
        """The fields of the annotated class, or anything.

        Raises:
            SchemaError: `meta` is asked for records that are no dicts.
        """
        cls = self.signature().takes
        if cls is None:
            return Anything()
        if self.meta and not is_typeddict(cls):
            raise SchemaError(
                f"{self.function.name} cannot get event_time and _pen with its records",
                expected="a function of a dict, where meta=True",
                got=f"a parameter annotated with {cls.__name__}",
                fix="leave out meta, or annotate the parameter with dict",
            )
        needed = {f.name for f in fields_of(cls) if f.required}
        return Columns(pa.schema([f for f in schema_of(cls) if f.name in needed]))

    def reader(self, schema: pa.Schema) -> Reader:
        """From a batch of this schema to records."""
        cls = self.signature().takes
        if cls is not None:
            return objects_of(cls, schema.names)
        return dicts_of(user_columns(schema).names)

    def records(self, read: Reader, work: Work) -> list[Any]:
        """The records at hand, as the function gets them."""
        records = read(work.payload)
        if self.meta:
            pen = work.pen()
            beside = zip(*(values(pen.field(n)) for n in ("key", "headers", "id")), strict=True)
            times = values(work.payload.column("event_time"))
            for record, (key, headers, id), time in zip(records, beside, times, strict=True):
                record["event_time"] = time
                record["_pen"] = {"key": key, "headers": headers, "id": id}
        return records


def returned(step: Any, taken: Type) -> Type:
    """What a function that returns records gives: declared, annotated, or what it got."""
    if step.schema is not None:
        return Columns(with_event_time(parse_ddl(step.schema)))
    found = step.signature()
    cls = found.gives or found.takes
    if cls is not None:
        return Columns(with_event_time(schema_of(cls)))
    return taken


_HINT = "annotate what the function returns, or give the step schema=..."


class MapKernel:
    """Calls the function for each record and builds columns from what it returns."""

    def __init__(self, step: PerRecord, schema: pa.Schema, gives: pa.Schema) -> None:
        self._step = step
        self._function = step.function.load()
        self._read = step.reader(schema)
        self._build = Columnar(gives, hint=_HINT)
        self._gives = gives

    def call(self, records: list[Any], work: Work, policy: Policy) -> Any:
        """Results in the records' order, failures by index, retries."""
        return each(self._function, records, policy)

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Once per record."""
        records = self._step.records(self._read, work)
        results, failures, retried = self.call(records, work, policy)
        origin = None
        if failures:
            origin = [n for n in range(len(results)) if n not in failures]
            results = [r for r in results if r is not FAILED]
        return self._finished(work, results, origin, failures, retried)

    def _finished(
        self,
        work: Work,
        results: list[Any],
        origin: list[int] | None,
        failures: dict[int, Failure],
        retried: int,
    ) -> Outcome:
        columns, times, odd = self._build.build(results)
        if odd:
            before = range(work.count) if origin is None else origin
            failures |= {before[at]: Failure(error) for at, error in odd.items()}
            origin = [n for at, n in enumerate(before) if at not in odd]
        from_row = None if origin is None else pa.array(origin, pa.int64())
        if times is None:
            times = work.payload.column("event_time")
            times = times if from_row is None else times.take(from_row)
        given = {f.name: c for f, c in zip(user_columns(self._gives), columns, strict=True)}
        arrays = [times if f.name == "event_time" else given[f.name] for f in self._gives]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._gives)
        return Outcome(rows, from_row, failures, retried=retried)


@connector
class Map(PerRecord):
    """One record in, one record out."""

    function: Function = option(doc="Gets a record, returns a record.")
    schema: str | None = option(default=None, doc=_SCHEMA, example="id long, total double")
    meta: bool = option(default=False, doc=_META)
    deterministic: bool = option(
        default=False, doc="True if the same record always gives the same result."
    )

    def gives(self, input: Type) -> Type:
        """Declared, annotated, or what it got."""
        return returned(self, input)

    def kernel(self, schema: pa.Schema, gives: pa.Schema) -> Kernel:
        """A loop over records."""
        return MapKernel(self, schema, gives)


class FlatMapKernel(MapKernel):
    """Each record becomes any number of records."""

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Flatten, remembering whose child each is."""
        records = self._step.records(self._read, work)
        listed: Callable[[Any], list[Any]] = _lister(self._function)
        results, failures, retried = each(listed, records, policy)
        flat: list[Any] = []
        origin: list[int] = []
        for n, children in enumerate(results):
            if children is not FAILED:
                flat.extend(children)
                origin.extend([n] * len(children))
        outcome = self._finished(work, flat, origin, failures, retried)
        bad = set(outcome.failures)
        if bad and outcome.origin is not None:
            # A record one of whose children is bad fails as a whole, or a replay would double.
            good = [i for i, n in enumerate(outcome.origin.to_pylist()) if n not in bad]
            outcome.rows = outcome.rows.take(pa.array(good, pa.int64()))
            outcome.origin = outcome.origin.take(pa.array(good, pa.int64()))
        return outcome


def _lister(function: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def listed(record: Any) -> list[Any]:
        found = function(record)
        if isinstance(found, dict | str | bytes):
            raise SchemaError(
                "a function of flat_map must return several records",
                expected="a list or an iterator of records",
                got=type(found).__name__,
                fix="return a list, or use map",
            )
        return [] if found is None else list(found)

    return listed


@connector
class FlatMap(PerRecord):
    """One record in, any number of records out."""

    _several_results: ClassVar[bool] = True

    function: Function = option(doc="Gets a record, returns a list or an iterator of records.")
    schema: str | None = option(default=None, doc=_SCHEMA, example="word string, count int")
    meta: bool = option(default=False, doc=_META)
    deterministic: bool = option(
        default=False, doc="True if the same record always gives the same result."
    )

    def gives(self, input: Type) -> Type:
        """Declared, annotated, or what it got."""
        return returned(self, input)

    def kernel(self, schema: pa.Schema, gives: pa.Schema) -> Kernel:
        """A loop over records."""
        return FlatMapKernel(self, schema, gives)


class FilterKernel:
    """Keeps rows by what a function says; nothing is converted back."""

    def __init__(
        self, step: PerRecord, schema: pa.Schema, *, keep: bool = True, tells: bool = True
    ) -> None:
        self._tells = tells
        self._step = step
        self._function = step.function.load()
        self._read = step.reader(schema)
        self._keep = keep

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Once per record."""
        results, failures, retried = each(
            self._function, self._step.records(self._read, work), policy
        )
        mask = np.fromiter(
            (r is not FAILED and bool(r) is self._keep for r in results), bool, len(results)
        )
        if mask.all():
            return Outcome(work.payload, retried=retried)
        origin = pa.array(np.flatnonzero(mask), pa.int64())
        told = failures if self._tells else {}
        return Outcome(work.payload.take(origin), origin, told, retried=retried)


@connector
class Filter(PerRecord):
    """Keep the records for which a function is true."""

    verbatim: ClassVar[bool] = True

    function: Function = option(doc="Gets a record, returns whether to keep it.")
    meta: bool = option(default=False, doc=_META)
    deterministic: bool = option(
        default=False, doc="True if the same record always gives the same result."
    )

    def kernel(self, schema: pa.Schema, gives: pa.Schema) -> Kernel:
        """A mask over the rows."""
        return FilterKernel(self, schema)


class PeekKernel:
    """Shows records and lets them pass."""

    def __init__(self, step: Peek, schema: pa.Schema) -> None:
        self._step = step
        self._function = step.function.load() if step.function is not None else _to_stderr
        cls = signature(self._function).takes if step.function is not None else None
        names = user_columns(schema).names
        self._read = objects_of(cls, schema.names) if cls is not None else dicts_of(names)

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Only the first of each batch, if there is a limit."""
        shown = work.payload
        if self._step.limit is not None:
            shown = shown.slice(0, self._step.limit)
        _, failures, retried = each(self._function, self._read(shown), policy)
        if not failures:
            return Outcome(work.payload, retried=retried)
        good = pa.array([n for n in range(work.count) if n not in failures], pa.int64())
        return Outcome(work.payload.take(good), good, failures, retried=retried)


def _to_stderr(record: Any) -> None:
    sys.stderr.write(json.dumps(record, default=str) + "\n")


@connector
class Peek(Step):
    """Look at records as they pass; they go on unchanged."""

    main: ClassVar[str | None] = "function"
    verbatim: ClassVar[bool] = True

    function: Function | None = option(
        default=None, doc="Called with a record; by default the record goes to standard error."
    )
    limit: int | None = option(
        default=None, doc="Look at the first so many of each batch only.", check=at_least(0)
    )

    def kernel(self, schema: pa.Schema, gives: pa.Schema) -> Kernel:
        """The rows are not touched."""
        return PeekKernel(self, schema)


__all__ = ["Filter", "FilterKernel", "FlatMap", "Map", "MapKernel", "Peek", "PerRecord", "returned"]
