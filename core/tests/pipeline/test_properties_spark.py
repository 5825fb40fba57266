"""Random pipelines on Spark give what plain Python gives, fused or not, in any parallelism."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock as pen
from penstock.connectors.generator import GeneratorSource, Range

pytestmark = pytest.mark.spark
ROWS = 400
SCHEMA = "id long, customer string, total double"
Record = dict[str, Any]
Plain = Callable[[Record], list[Record]]


def _add(k: int) -> Callable[[Record], Record]:
    return lambda r: {**r, "id": r["id"] + k}


def _batch_add(k: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        made = pa.array([n + k for n in batch.column("id").to_pylist()], pa.int64())
        return batch.set_column(batch.schema.names.index("id"), "id", made)

    return function


def random_step(rng: random.Random) -> tuple[Callable[[pen.Flow], pen.Flow], Plain]:
    """A step for a flow, and the same in plain Python."""
    k = rng.randint(0, 4)
    tasks = rng.choice([None, None, 1, 3])
    choices: list[tuple[Callable[[pen.Flow], pen.Flow], Plain]] = [
        (lambda f: f.map(_add(k), parallelism=tasks), lambda r: [_add(k)(r)]),
        (lambda f: f.map_batches(_batch_add(k), parallelism=tasks), lambda r: [_add(k)(r)]),
        (lambda f: f.concurrent_map(_add(k), lanes=3), lambda r: [_add(k)(r)]),
        (lambda f: f.filter(lambda r: r["id"] % 5 != k), lambda r: [r] if r["id"] % 5 != k else []),
        (lambda f: f.where(f"id % 5 != {k}"), lambda r: [r] if r["id"] % 5 != k else []),
        (lambda f: f.where("true"), lambda r: [r]),
        (lambda f: f.key_by("customer"), lambda r: [r]),
        (
            lambda f: f.flat_map(lambda r: [r] * (r["id"] % 3), parallelism=tasks),
            lambda r: [r] * (r["id"] % 3),
        ),
    ]
    return rng.choice(choices)


def random_line(rng: random.Random, flow: pen.Flow, most: int) -> tuple[pen.Flow, Plain]:
    steps = [random_step(rng) for _ in range(rng.randint(0, most))]
    for declare, _ in steps:
        flow = declare(flow)

    def plain(record: Record) -> list[Record]:
        current = [record]
        for _, step in steps:
            current = [made for each in current for made in step(each)]
        return current

    return flow, plain


def made(seed: int) -> list[Record]:
    [rows] = GeneratorSource(rows=ROWS, seed=seed).read(Range(0, ROWS))
    records = [json.loads(value) for value in rows.column("value").to_pylist()]
    return [{n: r[n] for n in ("id", "customer", "total")} for r in records]


def written(folder: Path) -> Counter[tuple[Any, ...]]:
    files = [p for p in folder.iterdir() if p.is_file() and p.name[0] not in "._"]
    records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return multiset(records)


def multiset(records: list[Record]) -> Counter[tuple[Any, ...]]:
    return Counter((r["id"], r["customer"], r["total"]) for r in records)


@pytest.mark.parametrize("turn", range(4))
def test_a_random_pipeline_gives_what_plain_python_gives(
    turn: int, spark: SparkSession, tmp_path: Path, penstock_seed: int
) -> None:
    rng = random.Random(penstock_seed * 31 + turn)
    sources, records = [], []
    for number in range(rng.randint(1, 2)):
        seed = rng.randint(0, 99) * 2 + number
        records += made(seed)
        sources.append(
            pen.source("generator", rows=ROWS, seed=seed, name=f"in{number}").decode(
                "json", schema=SCHEMA, name=f"decode{number}"
            )
        )
    start = sources[0].merge(sources[1]) if len(sources) == 2 else sources[0]
    trunk, before = random_line(rng, start, 3)
    by_function = rng.random() < 0.5
    yes, no = trunk.branch((lambda r: r["id"] % 2 == 0) if by_function else "id % 2 = 0")
    left, on_left = random_line(rng, yes, 2)
    right, on_right = random_line(rng, no, 2)
    flow = pen.pipeline(
        f"random-{turn}",
        left.sink("localfile", name="left", path=str(tmp_path / "left")),
        right.sink("localfile", name="right", path=str(tmp_path / "right")),
    )
    flow.run(tmp_path / "state", spark=spark)
    shared = [made_ for record in records for made_ in before(record)]
    wanted_left = [m for r in shared if r["id"] % 2 == 0 for m in on_left(r)]
    wanted_right = [m for r in shared if r["id"] % 2 for m in on_right(r)]
    assert written(tmp_path / "left") == multiset(wanted_left), flow.explain()
    assert written(tmp_path / "right") == multiset(wanted_right), flow.explain()
