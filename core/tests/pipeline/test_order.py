"""Order on Spark: each key's and each source's, kept under split and merge."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock as pen

pytestmark = pytest.mark.spark
SCHEMA = "id long, customer string, total double"
ROWS = 3_000


def shifted(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "id": record["id"] + 1_000_000}


def same(record: dict[str, Any]) -> dict[str, Any]:
    return record


def files(folder: Path) -> list[list[dict[str, Any]]]:
    """The records of each file, in the order of batches and tasks."""
    found = sorted(p for p in folder.iterdir() if p.is_file() and p.name[0] not in "._")
    return [[json.loads(line) for line in p.read_text().splitlines()] for p in found]


def rising(numbers: list[int]) -> bool:
    return all(a < b for a, b in pairwise(numbers))


def test_each_key_keeps_its_order_and_its_task_after_a_split_by_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = (
        pen.pipeline("keys")
        .source("generator", rows=ROWS, parallelism=4)
        .limits(max_rows=ROWS // 2)
        .decode("json", schema=SCHEMA)
        .key_by("customer")
        .map(same, parallelism=3)
        .sink("localfile", path=str(tmp_path / "out"))
    )
    assert "x3 by key" in flow.explain()
    flow.run(tmp_path / "state", spark=spark)
    by_key: dict[str, list[int]] = defaultdict(list)
    tasks: dict[str, set[int]] = defaultdict(set)
    found = files(tmp_path / "out")
    assert len(found) == 2 * 3
    for number, records in enumerate(found):
        for record in records:
            by_key[record["customer"]].append(record["id"])
            tasks[record["customer"]].add(number % 3)
    assert sum(map(len, by_key.values())) == ROWS
    assert len(by_key) > 50
    assert all(rising(ids) for ids in by_key.values())
    assert all(len(each) == 1 for each in tasks.values())


def test_each_source_keeps_its_order_when_they_merge_after_a_split(
    spark: SparkSession, tmp_path: Path
) -> None:
    one = pen.pipeline("sources").source("generator", rows=ROWS, seed=1, parallelism=3)
    other = pen.source("generator", rows=ROWS, seed=2, name="other", parallelism=2)
    flow = (
        one.decode("json", schema=SCHEMA)
        .map(same, parallelism=4)
        .merge(other.decode("json", schema=SCHEMA, name="decode-other").map(shifted))
        .sink("localfile", path=str(tmp_path / "out"), parallelism=1)
    )
    text = flow.explain()
    assert "split" in text
    assert "merge-sort" in text
    flow.run(tmp_path / "state", spark=spark)
    [records] = files(tmp_path / "out")
    ids = [record["id"] for record in records]
    first, second = [n for n in ids if n < 1_000_000], [n for n in ids if n >= 1_000_000]
    assert len(first) == len(second) == ROWS
    assert rising(first)
    assert rising(second)
