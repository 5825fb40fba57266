"""What the built-in steps share: they are transforms, so options, docs and schema come with it."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from penstock.contracts.transform import Columns, Transform, Type
from penstock.pipeline.graph import Policy
from penstock.pipeline.kernels import Kernel, Outcome, isolated
from penstock.pipeline.work import Work


class Step(Transform):
    """A step that ships with the core.

    Attributes:
        main: The option that a bare value stands for (`where: "total > 100"`).
        several: Whether it may read more than one node.
        stateful: Whether it keeps state in Spark's state store, and so must run on the stream.
        scatters: Whether Spark shuffles its rows, so that order and place are lost.
        rereads: Whether it has Spark compute its input twice: once for the healthy rows, once
            for the failed.
        verbatim: Whether rows pass as they are, or not at all.
    """

    main: ClassVar[str | None] = None
    several: ClassVar[bool] = False
    stateful: ClassVar[bool] = False
    scatters: ClassVar[bool] = False
    rereads: ClassVar[bool] = False
    verbatim: ClassVar[bool] = False

    def kernel(self, schema: pa.Schema, gives: pa.Schema) -> Kernel:
        """The step over rows of a known schema (without `_pen`). On a worker, once per chain."""
        return OwnColumns(self)

    def apply(self, data: Any) -> Any:
        """Over the rows' own columns, without `_pen`, where the step needs no more."""
        raise TypeError(f"{type(self).__name__} runs through its kernel")


class OwnColumns:
    """Runs a step's `apply` over the rows without `_pen`."""

    def __init__(self, step: Transform) -> None:
        self._step = step

    def __call__(self, work: Work, policy: Policy) -> Outcome:
        """Whole first, then halves."""

        def attempt(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
            made = self._step.apply(batch)
            return made if isinstance(made, tuple) else (made, None)

        return isolated(work.payload, attempt, policy)


def known(kind: Type) -> pa.Schema | None:
    """The columns of a type where they are known."""
    return kind.schema if isinstance(kind, Columns) else None
