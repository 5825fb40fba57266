"""Queues as Spark sources: acknowledged when durable, replayed as they were, to the last batch.

Loaded on first use: a receiver process needs the spool, not Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.queues.aside import set_aside
    from penstock.spark.queues.options import QueueOptions
    from penstock.spark.queues.readers import batch_reader, stream_reader

__all__ = ["QueueOptions", "batch_reader", "set_aside", "stream_reader"]
_HOMES = {"QueueOptions": "options", "set_aside": "aside"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _HOMES.get(name, "readers")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
