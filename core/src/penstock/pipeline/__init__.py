"""Pipelines: declared in the user's words, analysed into what can run in parallel.

The package itself can be called: `penstock.pipeline("orders")` begins a pipeline, although a
folder of this name would otherwise hide the function.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, name: str, *parts: Any) -> Any:
        from penstock.pipeline.declare import pipeline

        return pipeline(name, *parts)


sys.modules[__name__].__class__ = _Callable
