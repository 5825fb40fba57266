"""A processed batch kept under the checkpoint, so that every sink and every replay reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession

from penstock.contracts import points
from penstock.pipeline.chain import Chain
from penstock.pipeline.counts import Counts
from penstock.spark.checkpoint import Checkpoint, folder_name, write_whole
from penstock.spark.deadletters import DeadLetters
from penstock.spark.shares import RECEIPTS, Share, StageTask, read_staged
from penstock.spark.types import arrow_schema, spark_schema


@frozen
class Staged:
    """A staged batch: one file per task, in the order of the tasks.

    Attributes:
        files: Their paths.
        letters: The dead letters found while staging.
        counts: Of the stages that ran before.
        schema: Of the rows.
        rows: How many there are.
    """

    files: tuple[str, ...]
    letters: tuple[str, ...]
    counts: Counts
    schema: pa.Schema
    rows: int = 0

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows again, one partition per file."""
        count = len(self.files)
        indexes = spark.range(0, count, 1, max(count, 1))
        return indexes.mapInArrow(_ReadStaged(self.files), spark_schema(self.schema))


@frozen
class _ReadStaged:
    files: tuple[str, ...]

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in rows:
            for index in each.column(0).to_pylist():
                yield from read_staged(self.files[index])


def stage(
    frame: DataFrame,
    chain: Chain | None,
    checkpoint: Checkpoint,
    letters: DeadLetters,
    batch: int,
    name: str,
) -> Staged:
    """Stage a frame (after a chain, if given), or take what an earlier attempt staged."""
    folder = checkpoint.stage(batch) / folder_name(name)
    manifest = folder / "manifest.json"
    schema = arrow_schema(frame.schema) if chain is None else chain.schema
    if not manifest.exists():
        task = StageTask(str(folder), batch, chain, schema, str(letters.folder), letters.series)
        shares = [Share.from_text(r[0]) for r in frame.mapInArrow(task, RECEIPTS).collect()]
        write_whole(manifest, json.dumps(_described(shares)))
        points.reached("staged", batch=batch, node=name)
    return _taken(folder, json.loads(manifest.read_text(encoding="utf-8")), schema)


def _described(shares: list[Share]) -> dict[str, Any]:
    ordered = sorted(shares, key=lambda share: share.receipt.partition)
    counts = sum((share.counts for share in ordered), Counts())
    return {
        "files": [share.receipt.payload["file"] for share in ordered],
        "letters": [name for share in ordered for name in share.letters],
        "counts": counts.to_json(),
        "rows": sum(share.receipt.rows for share in ordered),
    }


def _taken(folder: Path, told: dict[str, Any], schema: pa.Schema) -> Staged:
    files = tuple(str(folder / name) for name in told["files"])
    counts = Counts.from_json(told["counts"])
    return Staged(files, tuple(told["letters"]), counts, schema, told.get("rows", 0))
