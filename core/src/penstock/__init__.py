"""Penstock: a connector SDK for Spark.

    import penstock as pen

    pen.pipeline("orders").source("generator", rows=1000).sink("stdout", on="driver")

Names are loaded on first use; importing this package imports neither Spark nor Arrow.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.contracts.secret import Secret as Secret
    from penstock.pipeline.declare import Flow as Flow
    from penstock.pipeline.declare import pipeline as pipeline
    from penstock.pipeline.declare import sink as sink
    from penstock.pipeline.declare import source as source
    from penstock.pipeline.declare import step as step
    from penstock.pipeline.document import from_yaml as from_yaml

# Arrow imports numpy, whose idle threads would spin for a tenth of a second of CPU before they rest.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")

_FROM = {
    "Flow": "penstock.pipeline.declare",
    "Secret": "penstock.contracts.secret",
    "from_yaml": "penstock.pipeline.document",
    "decode": "penstock.spark.interop",
    "read": "penstock.spark.interop",
    "register": "penstock.spark.discovery",
    "session": "penstock.spark.session",
    "sink": "penstock.pipeline.declare",
    "source": "penstock.pipeline.declare",
    "step": "penstock.pipeline.declare",
}


def __getattr__(name: str) -> Any:
    if name == "pipeline":
        return importlib.import_module("penstock.pipeline")
    if name not in _FROM:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(importlib.import_module(_FROM[name]), name)


def __dir__() -> list[str]:
    return sorted([*_FROM, "pipeline"])
