"""Clients kept in a worker process between tasks.

Spark keeps its Python workers, so a client opened by one task serves the next. A borrowed client
belongs to its borrower; what failed is closed, not handed back.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Hashable
from typing import Any

KEPT = 8
"""Clients kept at most; the one handed back first goes first."""

_idle: dict[tuple[int, Hashable], list[Any]] = {}


def borrow(key: Hashable, make: Callable[[], Any]) -> Any:
    """A client that was handed back under this key, else a new one."""
    waiting = _idle.get((os.getpid(), key))
    if waiting:
        found = waiting.pop()
        if not waiting:
            del _idle[os.getpid(), key]
        return found
    return make()


def hand_back(key: Hashable, client: Any) -> None:
    """Keep a client for the next borrower."""
    _idle.setdefault((os.getpid(), key), []).append(client)
    while sum(map(len, _idle.values())) > KEPT:
        oldest = next(iter(_idle))
        _idle[oldest].pop(0).close()
        if not _idle[oldest]:
            del _idle[oldest]


def close_all() -> None:
    """Close what this process keeps."""
    for key in [k for k in _idle if k[0] == os.getpid()]:
        for client in _idle.pop(key):
            client.close()


atexit.register(close_all)
