"""What happens to records between a source and a sink.

A transform is declared over one of three grains. Its `wants` and `gives` let the analysis put
coders where types differ, and refuse what no coder can mend.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

import pyarrow as pa
from attrs import frozen

from penstock.contracts.options import Configured

Grain = Literal["rows", "objects", "frame"]


@frozen
class Bytes:
    """Undecoded records: a `value` column and the envelope's fields."""

    def __str__(self) -> str:
        return "bytes"


@frozen
class Columns:
    """Typed columns. `schema` None: any typed columns."""

    schema: pa.Schema | None = None

    def __str__(self) -> str:
        if self.schema is None:
            return "columns"
        return ", ".join(f"{f.name} {f.type}" for f in self.schema if f.name != "_pen")


@frozen
class Objects:
    """Python objects of one named type, within a fused chain only."""

    name: str

    def __str__(self) -> str:
        return self.name


@frozen
class Anything:
    """Takes what it gets."""

    def __str__(self) -> str:
        return "any"


Type = Bytes | Columns | Objects | Anything


class Transform(Configured):
    """A named, installable step. Attrs-frozen options; picklable.

    `grain` says what `apply` is given: `rows` an Arrow batch (with `_pen`), `objects` a list of
    the type in `wants`, `frame` a Spark DataFrame.
    """

    grain: Grain = "rows"
    deterministic: bool = True
    """Whether the same input always gives the same output; if not, batches are staged."""

    def wants(self) -> Type:
        """The type of its input. Pure; called at analysis."""
        return Anything()

    def gives(self, input: Type) -> Type:
        """The type of its output for an input of a type it wants. Pure; called at analysis."""
        return input

    @abstractmethod
    def apply(self, data: Any) -> Any:
        """Do it. On workers for `rows` and `objects`, on the driver for `frame`.

        `rows`: returns a batch, or (batch, origin) where rows were dropped or multiplied:
        origin holds for each output row its input row. `objects`: returns a list as long as its
        input, None for a dropped one. An exception concerns the whole call; the core then
        tries row by row, so that only the guilty become dead letters.
        """
