"""`validate`: records that break a rule become dead letters, with the rule they broke."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.contracts import Anything, Columns, Type, connector, option
from penstock.contracts.errors import OptionError, RunError
from penstock.pipeline.annotations import fields_of, schema_of, signature
from penstock.pipeline.functions import Function
from penstock.pipeline.graph import Policy
from penstock.pipeline.kernels import FAILED, Failure, Kernel, Outcome, each
from penstock.pipeline.records import dicts_of, objects_of
from penstock.pipeline.shapes import columns_of, user_columns
from penstock.pipeline.steps.columns import need
from penstock.pipeline.steps.step import Step
from penstock.pipeline.work import Work


class InvalidRecord(RunError):
    """A record broke a rule of a `validate` step."""


@connector
class Validate(Step):
    """Let a record pass only if it keeps the rules."""

    main: ClassVar[str | None] = "function"
    verbatim: ClassVar[bool] = True

    function: Function | None = option(
        default=None,
        doc="Gets a record; True or None: it is good; False or a sentence: it is not, and why.",
    )
    required: list[str] | None = option(default=None, doc="Columns that must not be null.")

    def settle(self) -> None:
        """A rule at least."""
        if self.function is None and not self.required:
            raise OptionError("validate has no rule", fix="give it a function, or required=[...]")

    def wants(self) -> Type:
        """The fields of the function's annotated class, or anything."""
        cls = signature(self.function.load()).takes if self.function is not None else None
        if cls is None:
            return Anything()
        needed = {f.name for f in fields_of(cls) if f.required}
        return Columns(pa.schema([f for f in schema_of(cls) if f.name in needed]))

    def gives(self, input: Type) -> Type:
        """The same rows."""
        schema = columns_of(input)
        if schema is not None:
            for name in self.required or ():
                need(schema, name, "validate")
        return input

    def kernel(self, schema: pa.Schema, gives: pa.Schema) -> Kernel:
        """Nulls by whole columns, then the function record by record."""
        return ValidateKernel(self, schema)


class ValidateKernel:
    """Finds the rows that break a rule; the others pass untouched."""

    def __init__(self, step: Validate, schema: pa.Schema) -> None:
        self._step = step
        self._function = step.function.load() if step.function is not None else None
        cls = signature(self._function).takes if self._function is not None else None
        names = user_columns(schema).names
        self._read = objects_of(cls, schema.names) if cls is not None else dicts_of(names)

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Once per batch."""
        failures: dict[int, Failure] = {}
        for name in self._step.required or ():
            column = work.payload.column(name)
            if column.null_count:
                for n in np.flatnonzero(np.asarray(column.is_null())).tolist():
                    failures.setdefault(n, _broken(f"the column {name} is null"))
        retried = 0
        if self._function is not None:
            retried = self._check(work, policy, failures)
        if not failures:
            return Outcome(work.payload, retried=retried)
        good = pa.array([n for n in range(work.count) if n not in failures], pa.int64())
        return Outcome(work.payload.take(good), good, failures, retried=retried)

    def _check(self, work: Work, policy: Policy, failures: dict[int, Failure]) -> int:
        assert self._function is not None
        said, raised, retried = each(self._function, self._read(work.payload), policy)
        for n, verdict in enumerate(said):
            if n in failures:
                continue
            if verdict is FAILED:
                failures[n] = raised[n]
            elif verdict is not None and verdict is not True:
                failures[n] = _broken(self._sentence(verdict))
        return retried

    def _sentence(self, verdict: Any) -> str:
        assert self._step.function is not None
        return verdict if isinstance(verdict, str) else f"{self._step.function.name} said no"


def _broken(sentence: str) -> Failure:
    return Failure(InvalidRecord(sentence))
