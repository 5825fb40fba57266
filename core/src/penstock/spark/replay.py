"""Dead letters sent through their pipeline again, each from the node where it failed.

What fails again becomes a dead letter again, with the new cause. A replay has a checkpoint of its
own: killed in the middle, it is finished by the next one, before anything else is replayed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen
from pyspark.sql import SparkSession

from penstock.contracts.envelope import PEN_FIELD, UNDECODED, conform, pen
from penstock.contracts.errors import DeclareError, RunError
from penstock.contracts.options import connector, option
from penstock.contracts.source import Context, Limit, Planner, Position, ReplayableSource
from penstock.contracts.transform import Bytes
from penstock.pipeline.analyse import analyse
from penstock.pipeline.graph import Graph
from penstock.pipeline.passes.fusion import fuse
from penstock.pipeline.passes.originals import carried
from penstock.pipeline.passes.staging import shared
from penstock.pipeline.plan import Plan, Stage
from penstock.pipeline.shapes import type_of
from penstock.pipeline.work import read_row
from penstock.spark.checkpoint import Checkpoint, write_whole
from penstock.spark.commitlog import CommitLog
from penstock.spark.deadletters import DeadLetters
from penstock.spark.running import launch
from penstock.spark.session import session

log = logging.getLogger("penstock.replay")
_CHUNK = 20_000


def replay(
    graph: Graph,
    checkpoint: str | Path,
    *,
    state: str | None = None,
    node: str | None = None,
    spark: SparkSession | None = None,
) -> dict[str, int]:
    """Replay the letters that wait; returns how many were replayed and how many failed again.

    Args:
        graph: The pipeline, mended.
        checkpoint: Its checkpoint, which holds the letters.
        state: Its state folder, if it has one of its own.
        node: Only letters that failed at this node.
        spark: The session to run on.

    Raises:
        DeclareError: a letter names a node that the pipeline no longer has.
        RunError: it was stopped, or failed; the letters that have not gone through wait.
    """
    place = Checkpoint(str(checkpoint), state)
    place.claim(graph.name)
    letters = DeadLetters(place.dead_letters)
    plan = analyse(graph)
    spark = spark or session(name=graph.name)
    before = letters.table().num_rows
    done = 0
    for group in begun(letters, node):
        _replay_group(plan, group, place, spark)
        done += len(group.names)
    waiting = letters.table()
    if node is not None:
        waiting = waiting.filter(pc.equal(waiting["node"], node))
    sources_own = pc.is_null(waiting["input"])
    if pc.any(sources_own).as_py():
        log.warning(
            "%d letters stay: their source could not read them, so that there is no step to begin "
            "at; mend the records and put them where the source reads",
            pc.sum(sources_own).as_py(),
        )
        waiting = waiting.filter(pc.invert(sources_own))
    for name in sorted(set(waiting["node"].to_pylist())):
        chosen = waiting.filter(pc.equal(waiting["node"], name))
        for each in _by_schema(chosen):
            _replay_group(plan, _begin(letters, name, each), place, spark)
            done += each.num_rows
    return {"replayed": done, "failed": letters.table().num_rows - (before - done)}


def _by_schema(letters: pa.Table) -> list[pa.Table]:
    """Letters of one node may hold inputs of several schemas, if the pipeline was changed."""
    groups: dict[str, list[int]] = {}
    for index, data in enumerate(letters["input"].to_pylist()):
        groups.setdefault(_schema_of(data).to_string(), []).append(index)
    return [letters.take(pa.array(indexes)) for indexes in groups.values()]


def _schema_of(data: bytes) -> pa.Schema:
    with pa.ipc.open_stream(data) as stream:
        return stream.schema


@frozen
class Group:
    """Letters that are replayed together: those of one node whose inputs have one schema.

    Its folder holds their names and inputs, so that a replay that was killed is finished with
    the same letters, whatever has come since: another replay of them would double what the first
    has written.
    """

    folder: Path
    node: str
    names: list[str]

    @property
    def series(self) -> str:
        """What its batches and its checkpoint are called."""
        return self.folder.name

    @property
    def inputs(self) -> Path:
        """The letters' inputs, in one file."""
        return self.folder / "penstock" / "letters.arrow"


def begun(letters: DeadLetters, node: str | None = None) -> list[Group]:
    """The replays that were begun and not finished."""
    found = []
    for told in sorted((letters.folder / "replays").glob("*/penstock/letters.json")):
        held = json.loads(told.read_text(encoding="utf-8"))
        group = Group(told.parents[1], held["node"], held["letters"])
        if not letters.settled(group.series) and node in (None, group.node):
            found.append(group)
    return found


def _begin(letters: DeadLetters, node: str, waiting: pa.Table) -> Group:
    names = sorted(waiting["letter"].to_pylist())
    series = "replay-" + hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    group = Group(letters.folder / "replays" / series, node, names)
    batches = []
    for letter in waiting.select(["input", "original"]).to_pylist():
        batches.append(_with_original(read_row(letter["input"]), letter["original"]))
    group.inputs.parent.mkdir(parents=True, exist_ok=True)
    with open(group.inputs, "wb") as file:
        with pa.ipc.new_file(file, batches[0].schema) as out:
            out.write_table(pa.Table.from_batches(batches).combine_chunks(), _CHUNK)
        file.flush()
        os.fsync(file.fileno())
    # From here on the replay counts as begun.
    told = json.dumps({"node": node, "letters": names})
    write_whole(group.inputs.with_suffix(".json"), told)
    return group


def _with_original(row: pa.RecordBatch, original: bytes | None) -> pa.RecordBatch:
    """The letter's input with the bytes it came from, lest it fails again."""
    at = row.schema.get_field_index("_pen")
    if at < 0:
        return row
    meta = row.column(at)
    held = {f.name: meta.field(f.name) for f in meta.type} | {
        "original": pa.array([original], pa.binary())
    }
    return row.set_column(at, PEN_FIELD, pen(1, **held))


def _replay_group(plan: Plan, group: Group, place: Checkpoint, spark: SparkSession) -> None:
    own = Checkpoint(str(group.folder))
    shorter = _from_node(plan, group.node, LettersSource(path=str(group.inputs)))
    kept = DeadLetters(place.dead_letters, series=f"{group.series}-")
    launch(shorter, own, spark, bounded=True, letters=kept).wait()
    if CommitLog(own.location).committed() is None:
        raise RunError(
            "the replay was stopped before its letters had gone through",
            who=group.node,
            fix="replay again: it goes on with the same letters",
        )
    kept.settle(group.series, group.names)


def _from_node(plan: Plan, node: str, source: LettersSource) -> Plan:
    """The plan from a node on, fed by the letters."""
    undecoded = source.schema().equals(UNDECODED, check_metadata=False)
    first = _first_stage(plan, node, undecoded)
    # What a source set aside goes where its records go: the letters stand in for it.
    name = first.name if first.kind == "source" else "letters"
    kept = {first.name}
    stages = [] if name == first.name else [evolve(first, inputs=(name,))]
    for stage in plan:
        inputs = tuple(each for each in stage.inputs if each in kept)
        if inputs and stage.name != first.name:
            kept.add(stage.name)
            stages.append(evolve(stage, inputs=inputs))
    fed = Stage(name, name, "source", "letters", source, gives=type_of(source.schema()))
    between = frozenset(shared((fed, *stages)))
    fused, segments = fuse((fed, *stages), between)
    return evolve(
        plan,
        stages=fused,
        segments=segments,
        shared=between,
        through=None,
        carried=carried(fused, beside={fed.name}),
    )


def _first_stage(plan: Plan, node: str, undecoded: bool) -> Stage:
    found = [stage for stage in plan if stage.node == node]
    for stage in found:
        if stage.kind in ("decode", "step", "encode", "sink") and (
            isinstance(stage.takes, Bytes) == undecoded or len(found) == 1
        ):
            return stage
    if found:
        return found[-1]
    raise DeclareError(
        f"a dead letter failed at the node {node!r}, which the pipeline does not have",
        who=plan.graph.name,
        expected="one of " + ", ".join(stage.name for stage in plan),
        fix="give the node its old name back",
    )


@connector
class LettersSource(ReplayableSource):
    """The inputs of dead letters, from one file."""

    path: str = option(doc="An Arrow file.")

    def bounded(self) -> bool:
        """A file ends."""
        return True

    def schema(self) -> pa.Schema:
        """As the failing node got them."""
        with pa.memory_map(self.path) as file:
            return pa.ipc.open_file(file).schema

    def planner(self, ctx: Context) -> Planner:
        """All at once."""
        return _Whole()

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """The rows."""
        schema = self.schema()
        with pa.memory_map(self.path) as file:
            reader = pa.ipc.open_file(file)
            for index in range(reader.num_record_batches):
                yield conform(reader.get_batch(index), schema)


class _Whole(Planner):
    def initial(self) -> Position:
        return {"read": 0}

    def latest(self, after: Position, limit: Limit, until: Position | None = None) -> Position:
        return {"read": 1}

    def plan(self, start: Position, end: Position) -> list[Any]:
        return [0] if start != end else []
