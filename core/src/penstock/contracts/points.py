"""Named points on the way of a batch, for those who watch: tests that kill, traces, profilers.

`PENSTOCK_OBSERVER=module:function` names a function called as `function(name, facts)` in
whichever process reaches a point. Without it a point costs one dictionary look-up.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import cache

Observer = Callable[[str, dict[str, object]], None]

POINTS = {
    "offsets-logged": "the batch's offsets are in Spark's log, nothing is written yet",
    "staged": "the processed batch is staged under the checkpoint",
    "mid-write": "a task has written some of its rows",
    "tasks-written": "all write tasks have closed, nothing is published",
    "dead-letters-published": "dead letters are published, sinks are not finished",
    "sink-finished": "one sink has finished the batch",
    "dead-letters-delivered": "the sink named for dead letters has the batch's, nothing is committed",
    "sinks-finished": "all sinks have finished, Spark has not committed",
    "before-ack": "Spark has committed, the broker is not told yet",
    "segment-received": "a receiver holds messages, nothing of them is on disk",
    "segment-written": "a segment is on disk, not acknowledged",
    "manifest-written": "a manifest names the batch's segments",
    "file-copied": "an object store has a file under its new name, and still under its old one",
    "file-published": "one file of a decided batch has its final name",
    "file-settled": "one file that was read is deleted, archived or renamed",
    "stage-called": "a fused stage was called (for traces)",
}


@cache
def _observer(named: str) -> Observer:
    module, _, function = named.partition(":")
    found: Observer = getattr(importlib.import_module(module), function)
    return found


def reached(name: str, **facts: object) -> None:
    """Tell the observer, if there is one, that this process has reached a point."""
    named = os.environ.get("PENSTOCK_OBSERVER")
    if named:
        _observer(named)(name, facts)
