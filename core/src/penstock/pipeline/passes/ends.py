"""Ends that are Spark's own, where the rest of the pipeline does not suit them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.contracts.errors import GraphError
from penstock.pipeline.ends import FormatSink, SparkSink, SparkSource
from penstock.pipeline.graph import Graph
from penstock.pipeline.passes.network import before_state
from penstock.pipeline.plan import Stage


def ends(graph: Graph, stages: Sequence[Stage]) -> None:
    """Refuse what Spark could not run.

    Raises:
        GraphError: state over what is read once, batches that replace each other, a place.
    """
    early = before_state(stages)
    sources = [stage for stage in stages if stage.kind == "source"]
    for stage in sources:
        if isinstance(stage.work, SparkSource) and stage.work.static and stage.name in early:
            keeper = next(s for s in stages if getattr(s.work, "stateful", False))
            raise GraphError(
                f"{keeper.name} keeps state over a stream, and {stage.name} is read once",
                who=graph.name,
                expected="a source that Spark reads as a stream",
                fix=f"read {stage.name} with stream=True, or do it in an apply step",
            )
    streamed = [s for s in sources if not getattr(s.work, "static", False)]
    for stage in stages:
        if isinstance(stage.work, FormatSink) and stage.work.replaces and streamed:
            raise GraphError(
                f"each batch that {stage.name} writes would replace the one before",
                who=graph.name,
                expected="mode=append, or a folder for each batch",
                got="mode=overwrite",
                fix='put {batch} into its path: path="out/batch={batch}"',
            )
        if isinstance(stage.work, SparkSink) and stage.place is not None:
            raise GraphError(
                f"{stage.name} has no place: Spark writes from its tasks",
                who=graph.name,
                got=f"on={stage.place}",
                fix="drop on, or use parallelism=1 to have one task write",
            )


def unbound(graph: Graph, stages: Sequence[Stage]) -> tuple[str, ...]:
    """Notes on sources that the pipeline's limits do not reach."""
    bounds = [n for n in ("max_rows", "max_bytes") if getattr(graph.settings, n) is not None]
    if not bounds:
        return ()
    return tuple(
        f"{stage.name}: {' and '.join(bounds)} do not bind what Spark reads"
        for stage in stages
        if isinstance(stage.work, SparkSource)
    )
