"""What can be seen of a Spark SQL expression without Spark: which functions it calls."""

from __future__ import annotations

import re

_LITERALS = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL
)
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_CLOCK = re.compile(
    r"\b(current_(?:timestamp|date|time)\b|localtimestamp\b|unix_timestamp\s*\(\s*\))",
    re.IGNORECASE,
)

GENERATORS = frozenset(
    f"{name}{outer}" for name in ("explode", "posexplode", "inline") for outer in ("", "_outer")
) | {"stack", "variant_explode", "variant_explode_outer"}
"""Functions that make several rows of one, or none."""

_CHANGING = frozenset(
    {
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"),
        *("now", "current_timestamp", "current_date", "current_time", "curdate", "localtimestamp"),
        *("unix_timestamp()", "monotonically_increasing_id", "spark_partition_id"),
        *("input_file_name", "input_file_block_start", "input_file_block_length"),
        *("reflect", "java_method", "try_reflect"),
    }
)
"""Functions that answer differently for the same row: chance, clocks, where the row lies."""


def called(expression: str) -> frozenset[str]:
    """The functions an expression calls, in lower case; what is quoted does not count."""
    bare = _LITERALS.sub(" ", expression)
    clocks = ("".join(name.split()) for name in _CLOCK.findall(bare))
    return frozenset(name.lower() for name in (*_CALL.findall(bare), *clocks))


def changing(*expressions: str) -> list[str]:
    """The functions among those called whose answer may differ from one time to the next."""
    found = {name for text in expressions for name in called(text) & _CHANGING}
    return sorted(found)
