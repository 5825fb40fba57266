"""Spark's Python processes collect garbage after each task, over all that was ever imported."""

from __future__ import annotations

import gc
import sys

_seen: int | None = None
_settled = False


def settle() -> None:
    """To be called when a task begins: what has outlived one is here to stay.

    It is left out of every collection to come, which then takes no time. Does nothing outside
    Spark's own processes.
    """
    global _seen, _settled
    if _settled:
        return
    collections = gc.get_stats()[2]["collections"]
    if _seen is None:
        _seen = collections
    elif collections > _seen:
        _settled = True
        if _of_spark():
            gc.freeze()


def _of_spark() -> bool:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return getattr(spec, "name", None) == "pyspark.daemon"
