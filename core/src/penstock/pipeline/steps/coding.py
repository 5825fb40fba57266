"""`decode` and `encode` as declared: a coder's name and its options."""

from __future__ import annotations

from typing import Any, ClassVar

from penstock.contracts import connector, option
from penstock.pipeline.steps.step import Step


@connector
class Decode(Step):
    """Bytes to columns (or objects) with a coder."""

    main: ClassVar[str | None] = "coder"

    coder: str = option(doc="The coder's name.", example="json")
    options: dict[str, Any] = option(factory=dict, doc="The coder's own options.")


@connector
class Encode(Step):
    """Columns (or objects) to bytes with a coder."""

    main: ClassVar[str | None] = "coder"

    coder: str = option(doc="The coder's name.", example="json")
    options: dict[str, Any] = option(factory=dict, doc="The coder's own options.")
