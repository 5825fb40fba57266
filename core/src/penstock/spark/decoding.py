"""A coder over rows that Spark or one of its readers holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock import registry
from penstock.contracts.coder import Coder
from penstock.contracts.errors import DeclareError
from penstock.contracts.options import parse
from penstock.pipeline.chain import Chain
from penstock.pipeline.plan import Stage
from penstock.pipeline.shapes import decoded


def decoder(coder: str, options: Mapping[str, Any]) -> Stage:
    """The stage that decodes `value` with a coder.

    Raises:
        DeclareError: the coder gives objects, which cannot leave a process.
    """
    cls = registry.coder(coder)
    if not issubclass(cls, Coder):
        raise DeclareError(f"the coder {coder} gives no columns", who=coder)
    made = parse(cls, options, who=coder)
    return Stage("decode", "decode", "decode", coder, made, gives=decoded(made))


def chained(stage: Stage, schema: pa.Schema) -> Chain:
    """It over rows of a schema; a bad record keeps its bytes and its cause."""
    return Chain((stage,), schema, original=True)
