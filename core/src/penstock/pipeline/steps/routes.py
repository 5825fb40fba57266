"""Steps about where records go: merge, mirror, branch."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from penstock.contracts import Anything, Type, connector, option
from penstock.contracts.errors import OptionError
from penstock.contracts.transform import Grain
from penstock.pipeline.expressions import changing
from penstock.pipeline.functions import Function
from penstock.pipeline.kernels import Kernel
from penstock.pipeline.steps.frames import FAILED, FrameStep
from penstock.pipeline.steps.perrecord import FilterKernel, PerRecord
from penstock.pipeline.steps.step import Step


@connector
class Merge(FrameStep):
    """The records of several nodes as one stream; their columns must agree."""

    several: ClassVar[bool] = True
    verbatim: ClassVar[bool] = True

    def apply(self, data: Any) -> Any:
        """Its inputs are one frame already."""
        return data


@connector
class Mirror(FrameStep):
    """The same records to every node that reads this one."""

    verbatim: ClassVar[bool] = True

    def apply(self, data: Any) -> Any:
        """Nothing: readers share the frame."""
        return data


@connector
class Branch(Step):
    """One side of a fork: the records for which a predicate is true, or all the others.

    A null counts as false, so each record takes exactly one side. The predicate is asked on each
    side and must give the same answer twice.
    """

    main: ClassVar[str | None] = "when"
    verbatim: ClassVar[bool] = True
    tells: ClassVar[bool] = True

    when: Function | str | None = option(
        default=None, doc="A Spark expression or a function; its records take this side."
    )
    unless: Function | str | None = option(
        default=None, doc="A Spark expression or a function; its records take the other side."
    )

    def settle(self) -> None:
        """One of the two."""
        if (self.when is None) == (self.unless is None):
            raise OptionError(
                "branch takes when or unless",
                expected="one of them",
                got="neither" if self.when is None else "both",
            )
        asked = self._predicate
        if isinstance(asked, str) and (found := changing(asked)):
            raise OptionError(
                f"branch asks its predicate on each side, and {', '.join(found)} may answer "
                "differently: a record would take both sides, or none",
                expected="an expression that says the same of a record each time",
                got=asked,
                fix="compute it into a column with a select before, and branch on that",
            )

    @property
    def grain(self) -> Grain:  # type: ignore[override]
        """Spark's for an expression, rows for a function."""
        return "frame" if isinstance(self._predicate, str) else "rows"

    @property
    def _predicate(self) -> Function | str:
        chosen = self.when if self.when is not None else self.unless
        assert chosen is not None
        return chosen

    def wants(self) -> Type:
        """The fields of the function's annotated class, or anything."""
        if isinstance(self._predicate, str):
            return Anything()
        return _Asks(self._predicate).wants()

    def apply(self, data: Any) -> Any:
        """Spark's own filter, for an expression."""
        asked = f"coalesce(({self._predicate}), false)"
        if self.when is None:
            asked = f"NOT {asked}"
        return data.where(f"{asked} OR {FAILED}")

    def kernel(self, schema: pa.Schema, gives: pa.Schema) -> Kernel:
        """A mask over the rows, for a function."""
        assert isinstance(self._predicate, Function)
        keep = self.when is not None
        return FilterKernel(_Asks(self._predicate), schema, keep=keep, tells=self.tells)


@connector
class OtherSide(Branch):
    """A side that leaves it to the first one to tell on which records the predicate fails."""

    tells: ClassVar[bool] = False


class _Asks(PerRecord):
    def __init__(self, function: Function) -> None:
        self.function = function
        self.meta = False
