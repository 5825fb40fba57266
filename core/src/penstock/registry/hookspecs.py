"""Events a plugin may listen to: one hook each, called on the driver.

An implementation is a function marked with `penstock.registry.hookimpl` in an object that an
entry point of the group `penstock.hooks` names. It may take fewer arguments than the spec.
Hooks observe: an exception in one is reported as a warning and harms neither the pipeline nor
the other hooks.
"""

from __future__ import annotations

from typing import Any

import pluggy

hookspec = pluggy.HookspecMarker("penstock")
hookimpl = pluggy.HookimplMarker("penstock")


@hookspec
def penstock_analysing(pipeline: str, graph: Any) -> None:
    """A pipeline is about to be analysed; `graph` is what was declared. No Spark yet."""


@hookspec
def penstock_analysed(pipeline: str, plan: Any) -> None:
    """A pipeline was analysed; `plan` is what will run. No Spark yet."""


@hookspec
def penstock_started(pipeline: str, query: str, checkpoint: str) -> None:
    """Its streaming query runs.

    `query` is the pipeline's own id, the same in every run over this checkpoint, as connectors
    get it in their `Context`; it is not the id that Spark's interface shows.
    """


@hookspec
def penstock_batch_begun(pipeline: str, batch: int) -> None:
    """A batch begins; the same number comes again after a failure or a kill."""


@hookspec
def penstock_batch_done(pipeline: str, batch: int, counts: dict[str, Any]) -> None:
    """Every sink has finished a batch; `counts` holds records in, out and failed by node."""


@hookspec
def penstock_failed(pipeline: str, error: BaseException) -> None:
    """The query ended with an error; told once, whether or not anybody waits for it."""


@hookspec
def penstock_stopped(pipeline: str) -> None:
    """The query ended without one; told once, whether or not anybody waits for it."""
