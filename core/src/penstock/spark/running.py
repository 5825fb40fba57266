"""Running a declared pipeline: analyse, materialise, drain."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from penstock.contracts.errors import DeclareError, MaterialiseError, SetupError
from penstock.contracts.source import ReplayableSource
from penstock.pipeline.analyse import analyse
from penstock.pipeline.ends import FrameSource, SparkSource
from penstock.pipeline.plan import Plan
from penstock.registry import tell
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.deadletters import DeadLetters
from penstock.spark.drain import Drain
from penstock.spark.failures import speaker, told
from penstock.spark.handle import Handle
from penstock.spark.materialise import Materialised
from penstock.spark.session import session
from penstock.spark.travel import let_travel

if TYPE_CHECKING:
    from penstock.pipeline.graph import Graph


def run(
    graph: Graph,
    checkpoint: str | Path | None = None,
    *,
    state: str | Path | None = None,
    spark: SparkSession | None = None,
    wait: bool | None = None,
    progress: Callable[[str], None] | None = None,
) -> Handle:
    """Run a pipeline on Spark.

    Args:
        graph: What was declared.
        checkpoint: Where Spark and Penstock remember how far they are. A bounded pipeline may go
            without: it then begins anew each time.
        state: Penstock's own folder, if the checkpoint is no shared filesystem.
        spark: The session to run on; by default the active one, else a new local one.
        wait: Whether to return only at the end. By default a bounded pipeline is waited for,
            an unbounded one runs on.
        progress: Told what is being done before the first record comes.

    Raises:
        DeclareError, AnalyseError: the pipeline cannot work as declared.
        SetupError: the session is a client of Spark Connect.
        RunError: it failed while it was waited for.
    """
    say = progress or (lambda _: None)
    tell("analysing", pipeline=graph.name, graph=graph)
    plan = analyse(graph)
    tell("analysed", pipeline=graph.name, plan=plan)
    bounded = is_bounded(plan)
    place, temporary = _place(graph.name, checkpoint, state, bounded)
    spark = spark or _session_of(plan)
    if spark is None:
        say("starting Spark")
        spark = session(name=graph.name)
    _must_be_classic(spark)
    say("starting the pipeline")
    check_ends(plan)
    handle = launch(plan, place, spark, bounded=bounded, temporary=temporary)
    if wait if wait is not None else bounded:
        handle.wait()
    return handle


def launch(
    plan: Plan,
    place: Checkpoint,
    spark: SparkSession,
    *,
    bounded: bool,
    letters: DeadLetters | None = None,
    temporary: str | None = None,
) -> Handle:
    """Start an analysed pipeline's one streaming query."""
    graph = plan.graph
    query_id = place.claim(graph.name)
    let_travel(plan, local=str(spark.sparkContext.master).partition("[")[0] == "local")
    made = Materialised(plan, spark, place, query_id)
    drain = Drain(plan, made, place, letters or DeadLetters(place.dead_letters))
    writer = made.stream().writeStream.queryName(f"{graph.name}-{query_id[:8]}")
    writer = writer.option("checkpointLocation", place.location).foreachBatch(drain)
    if bounded:
        writer = writer.trigger(availableNow=True)
    elif graph.settings.max_wait is not None:
        pause = int(graph.settings.max_wait * 1000)
        writer = writer.trigger(processingTime=f"{pause} milliseconds")
    _raise_only_once()
    handle = Handle(plan, writer.start(), drain, place, temporary)
    tell("started", pipeline=graph.name, query=query_id, checkpoint=place.location)
    return handle


def _must_be_classic(spark: SparkSession) -> None:
    """A client of Spark Connect has no driver whose state a drain could share."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise SetupError(
            "a pipeline needs a classic Spark session",
            got="a client of Spark Connect",
            fix="run it with spark-submit, or with spark=penstock.session(); plain formats "
            "(spark.read.format) and penstock.read work over Connect",
        )


def _session_of(plan: Plan) -> SparkSession | None:
    """The session of a DataFrame that enters the pipeline."""
    frames = [stage.work.frame for stage in plan if isinstance(stage.work, FrameSource)]
    return frames[0].sparkSession if frames else None


def is_bounded(plan: Plan) -> bool:
    """Whether the pipeline ends by itself: declared so, or all its sources do."""
    declared = plan.graph.settings.bounded
    if declared is not None:
        return declared
    sources = [stage.work for stage in plan if stage.kind == "source"]
    return all(isinstance(s, ReplayableSource | SparkSource) and s.bounded() for s in sources)


def check_ends(plan: Plan) -> None:
    """See that every source and sink answers before anything is started."""
    letters = [plan.dead_letters] if plan.dead_letters is not None else []
    for stage in [*plan, *letters]:
        if stage.kind in ("source", "sink"):
            with told(speaker(stage.what), stage.work, "checking", MaterialiseError):
                stage.work.check()


def _place(name: str, checkpoint: Any, state: Any, bounded: bool) -> tuple[Checkpoint, str | None]:
    if checkpoint is None:
        if not bounded:
            raise DeclareError(
                "an unbounded pipeline needs a checkpoint",
                who=name,
                expected="a folder that outlives the run",
                fix='add checkpoint="state/"',
            )
        temporary = tempfile.mkdtemp(prefix="penstock-")
        return Checkpoint(temporary), temporary
    return Checkpoint(str(checkpoint), None if state is None else str(state)), None


def _raise_only_once() -> None:
    """A failing batch is raised to its user; py4j need not print its stack as well."""
    logger = logging.getLogger("py4j.clientserver")
    if _not_the_proxy not in logger.filters:
        logger.addFilter(_not_the_proxy)


def _not_the_proxy(record: logging.LogRecord) -> bool:
    return "Python Proxy" not in record.getMessage()
