"""What source, steps and sink keep together, against what was declared."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.contracts.errors import GuaranteeError
from penstock.contracts.queue import QueueSource
from penstock.pipeline.ends import FormatSink, FunctionSink, SparkSource
from penstock.pipeline.graph import Graph, Guarantee
from penstock.pipeline.plan import Stage


def guarantees(graph: Graph, stages: Sequence[Stage]) -> tuple[Guarantee, tuple[str, ...]]:
    """What is kept from end to end, and notes on what limits it.

    Raises:
        GuaranteeError: more was declared than an end can keep.
    """
    lacking = [reason for stage in stages if (reason := _lacks(stage)) is not None]
    if not lacking:
        return "exactly-once", ()
    if graph.settings.guarantee == "exactly-once":
        stage, why, fix = lacking[0]
        raise GuaranteeError(
            f"{stage.name} cannot keep exactly-once: {why}",
            who=graph.name,
            expected="a source that can be replayed and sinks that write a batch once",
            got="; ".join(f"{s.name} ({s.what}): at-least-once" for s, _, _ in lacking),
            fix=fix,
        )
    notes = tuple(f"{stage.name}: at-least-once, {why}" for stage, why, _ in lacking)
    return "at-least-once", notes


def _lacks(stage: Stage) -> tuple[Stage, str, str] | None:
    work = stage.work
    if stage.kind == "source":
        if isinstance(work, QueueSource):
            return _queue(stage)
        if isinstance(work, SparkSource) and not work.replayable:
            return (
                stage,
                "Spark reads it, and whether it reads the same again is the format's own",
                "set replayable=True on it if it does, or declare at-least-once",
            )
        return None
    if stage.kind != "sink":
        return None
    if work.promise().replay != "idempotent":
        return stage, "a batch written again is there twice", _idempotent(stage)
    return None


def _idempotent(stage: Stage) -> str:
    if isinstance(stage.work, FormatSink):
        return 'set mode="overwrite" and put {batch} into its path, or declare at-least-once'
    if isinstance(stage.work, FunctionSink):
        return "set idempotent=True on it if the function is, or declare at-least-once"
    return (
        f"choose an option of {stage.what} or a sink that is idempotent, or declare at-least-once"
    )


def _queue(stage: Stage) -> tuple[Stage, str, str] | None:
    if stage.settings.delivery != "pessimistic":
        return (
            stage,
            "with optimistic delivery the broker repeats what was in flight",
            'set delivery="pessimistic" and unique_ids=True on it, or declare at-least-once',
        )
    if not stage.settings.unique_ids:
        return (
            stage,
            "without unique ids a message that the broker repeats cannot be told from a new one",
            "set unique_ids=True on it if they are, or declare at-least-once",
        )
    return None
