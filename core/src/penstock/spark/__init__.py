"""Penstock on Spark: sessions, plain reads and writes, running pipelines."""

from __future__ import annotations

import importlib
from typing import Any

_FROM = {
    "Handle": "penstock.spark.handle",
    "decode": "penstock.spark.interop",
    "read": "penstock.spark.interop",
    "register": "penstock.spark.discovery",
    "replay": "penstock.spark.replay",
    "run": "penstock.spark.running",
    "session": "penstock.spark.session",
}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module 'penstock.spark' has no attribute {name!r}")
    return getattr(importlib.import_module(_FROM[name]), name)


def __dir__() -> list[str]:
    return sorted(_FROM)
