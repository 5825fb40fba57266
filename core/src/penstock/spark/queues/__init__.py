"""Queues as Spark sources: acknowledged when durable, replayed as they were, to the last batch.

Loaded on first use: a receiver process needs the spool, not Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.queues.options import QueueOptions
    from penstock.spark.queues.readers import batch_reader, stream_reader

__all__ = ["QueueOptions", "batch_reader", "stream_reader"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "options" if name == "QueueOptions" else "readers"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
