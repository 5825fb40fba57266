"""The connector under test in a pipeline, with the reference folder at the other end."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import penstock as pen
from penstock import registry
from penstock.conformance.records import Record, envelopes
from penstock.conformance.reference.folder_source import FolderSource
from penstock.conformance.reference.segments import append
from penstock.conformance.rig import Rig
from penstock.conformance.shapes import where
from penstock.conformance.waiting import NotInTime, until
from penstock.contracts import Context
from penstock.contracts.errors import PenstockError

if TYPE_CHECKING:
    from penstock.pipeline.declare import Flow
    from penstock.spark.handle import Handle

FOLDER = "conformance-folder"
CAUSE = "refused by the conformance suite"
CHECK = "check"
_METADATA = "Metadata-Version: 2.1\nName: penstock-under-test\nVersion: 1.0\n"


@contextmanager
def installed(rig: Rig) -> Iterator[str]:
    """The name by which pipelines find the connector while this lasts, installed or not."""
    home = rig.folder / "installed"
    info = home / "penstock_under_test-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(_METADATA)
    points = {FOLDER: "penstock.conformance.reference.folder:connector"}
    if rig.connector.name not in registry.names("connectors"):
        points[rig.connector.name] = where(rig)
    lines = [f"{name} = {place}" for name, place in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[penstock.connectors]", *lines]) + "\n")
    sys.path.append(str(home))
    registry.refresh()
    try:
        yield rig.connector.name
    finally:
        sys.path.remove(str(home))
        registry.refresh()


def refused(value: bytes) -> bool:
    """About one value in eight, chosen by its bytes: the same ones in every process."""
    return hashlib.sha256(value).digest()[0] < 32


def check(record: dict[str, Any]) -> dict[str, Any]:
    """The step that some records do not survive."""
    if refused(record["value"]):
        raise ValueError(CAUSE)
    return record


def mended(record: dict[str, Any]) -> dict[str, Any]:
    """The same step, once its author has learnt."""
    return record


class Other:
    """The folder at the other end of the pipeline."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self._options: dict[str, Any] = {"path": str(path)}

    def fill(self, records: list[Record]) -> None:
        for split in range(2):
            append(self.path, str(split), envelopes(records[split::2]))

    def batches(self) -> list[pa.RecordBatch]:
        source = FolderSource(path=str(self.path))
        planner = source.planner(Context(node="other"))
        try:
            parts = planner.plan(planner.initial(), planner.final())
            return [rows for part in parts for rows in source.read(part)]
        finally:
            planner.close()

    def source(self, name: str) -> Flow:
        return pen.pipeline(name).source(FOLDER, **self._options)

    def sink(self, flow: Flow) -> Flow:
        return flow.sink(FOLDER, **self._options)


def declared(rig: Rig, side: str, name: str, other: Other, step: Any = None) -> Flow:
    """From the connector to the folder (its source), or from the folder to it (its sink)."""
    if side == "source":
        options = rig.options("source")
        if rig.shape == "queue":
            options["quiet"] = rig.case.quiet
        flow = pen.pipeline("conformance").source(name, **options)
    else:
        flow = other.source("conformance")
    flow = flow.decode("bytes")
    if step is not None:
        flow = flow.map(step, name=CHECK)
    if side == "source":
        return other.sink(flow)
    return flow.sink(name, **rig.options("sink"))


def sides(rig: Rig) -> list[str]:
    """The sides a connector has: `source`, `sink`."""
    return [side for side in ("source", "sink") if getattr(rig.connector, side) is not None]


def stays(handle: Handle, seconds: float) -> None:
    """A query must go on for so long whatever happens; else say why it ended."""
    with suppress(NotInTime):
        until(lambda: not handle.running, within=seconds, why="the query ends")
    if not handle.running:
        try:
            handle.wait()
        except PenstockError as error:
            raise AssertionError(f"the query failed: {error}") from error
        raise AssertionError("the query ended by itself")
