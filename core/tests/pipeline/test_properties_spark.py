"""Random pipelines on Spark give what plain Python gives, fused or not, in any parallelism."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock as pen
from penstock.connectors.generator import GeneratorSource, Range
from penstock.contracts.envelope import STAMP
from penstock.contracts.envelope import pen as pen_of
from penstock.pipeline.analyse import analyse
from penstock.pipeline.graph import Policy
from penstock.pipeline.steps.columns import Sample
from penstock.pipeline.work import Work

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


Step = tuple[Callable[[pen.Flow], pen.Flow], Plain]


def _renamed(k: int) -> Callable[[Record], Record]:
    return lambda r: {"id": r["number"] + k, "customer": r["customer"], "total": r["total"]}


def _listed(r: Record) -> Record:
    return {**r, "items": [r["id"] + n for n in range(r["id"] % 3)]}


def _appended(k: int) -> Callable[[Record], Record]:
    return lambda r: {**r, "id": int(f"{r['id']}{k}")}


@cache
def sampled(seed: int, stamp: tuple[str, str, int]) -> bool:
    """Whether a sample keeps the records of a stamp, wherever it runs."""
    told = dict(zip(STAMP.names, stamp, strict=True))
    meta = pen_of(1, stamp=pa.array([told], STAMP))
    rows = pa.RecordBatch.from_arrays([pa.array([0]), meta], names=["id", "_pen"])
    step = Sample(fraction=0.6, seed=seed)
    kept = step.kernel(rows.schema, rows.schema)(Work(rows, original=False), Policy())
    return kept.rows.num_rows == 1


def python_steps(k: int, tasks: int | None) -> list[Step]:
    """Steps that run in Python, where `tasks` is None in one process with what is around them."""
    return [
        (lambda f: f.map(_add(k), parallelism=tasks), lambda r: [_add(k)(r)]),
        (lambda f: f.map_batches(_batch_add(k), parallelism=tasks), lambda r: [_add(k)(r)]),
        (lambda f: f.concurrent_map(_add(k), lanes=3), lambda r: [_add(k)(r)]),
        (lambda f: f.filter(lambda r: r["id"] % 5 != k), lambda r: [r] if r["id"] % 5 != k else []),
        (
            lambda f: f.flat_map(lambda r: [r] * (r["id"] % 3), parallelism=tasks),
            lambda r: [r] * (r["id"] % 3),
        ),
        (
            lambda f: f.rename({"id": "number"}).map(_renamed(k), schema=SCHEMA),
            lambda r: [_add(k)(r)],
        ),
        (
            lambda f: f.cast({"id": "string"}).map(_appended(k), schema=SCHEMA),
            lambda r: [_appended(k)(r)],
        ),
        (
            lambda f: (
                f.map(_listed, schema=f"{SCHEMA}, items array<long>")
                .explode("items", into="number")
                .map(_renamed(k), schema=SCHEMA)
            ),
            lambda r: [{**r, "id": n + k} for n in _listed(r)["items"]],
        ),
        (
            lambda f: f.sample(0.6, seed=k),
            lambda r: [r] if sampled(k, r["stamp"]) else [],
        ),
    ]


def spark_steps(k: int) -> list[Step]:
    """Steps that Spark runs, alone and next to the others."""
    return [
        (lambda f: f.where(f"id % 5 != {k}"), lambda r: [r] if r["id"] % 5 != k else []),
        (lambda f: f.where("true"), lambda r: [r]),
        (lambda f: f.key_by("customer"), lambda r: [r]),
        (
            lambda f: f.select("customer", f"id + {k} AS id", "total / 2 AS total"),
            lambda r: [{**r, "id": r["id"] + k, "total": r["total"] / 2}],
        ),
        (
            lambda f: f.rename({"id": "number"}).select(f"number + {k} AS id", "customer", "total"),
            lambda r: [_add(k)(r)],
        ),
        (
            lambda f: (
                f.select("*", f"array(id, id + {k}) AS items")
                .explode("items")
                .select("items AS id", "customer", "total")
            ),
            lambda r: [r, _add(k)(r)],
        ),
    ]


def random_step(rng: random.Random, *, spark: bool = True) -> Step:
    """A step for a flow, and the same in plain Python."""
    k = rng.randint(0, 4)
    tasks = rng.choice([None, None, 1, 3]) if spark else None
    return rng.choice(python_steps(k, tasks) + (spark_steps(k) if spark else []))


def random_line(
    rng: random.Random, flow: pen.Flow, most: int, *, spark: bool = True
) -> tuple[pen.Flow, Plain]:
    steps = [random_step(rng, spark=spark) for _ in range(rng.randint(0, most))]
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
    stamps = [tuple(stamp.values()) for stamp in rows.column("stamp").to_pylist()]
    return [
        {"id": r["id"], "customer": r["customer"], "total": r["total"], "stamp": stamp}
        for r, stamp in zip(records, stamps, strict=True)
    ]


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
        *(
            line.encode("json", name=f"encode-{name}").sink(
                "localfile", name=name, path=str(tmp_path / name)
            )
            for name, line in (("left", left), ("right", right))
        ),
    )
    flow.run(tmp_path / "state", spark=spark)
    shared = [made_ for record in records for made_ in before(record)]
    wanted_left = [m for r in shared if r["id"] % 2 == 0 for m in on_left(r)]
    wanted_right = [m for r in shared if r["id"] % 2 for m in on_right(r)]
    assert written(tmp_path / "left") == multiset(wanted_left), flow.explain()
    assert written(tmp_path / "right") == multiset(wanted_right), flow.explain()


@pytest.mark.parametrize("through", [True, False])
@pytest.mark.parametrize("turn", range(2))
def test_a_random_line_of_python_steps_gives_the_same_in_one_process_and_in_two(
    turn: int,
    through: bool,
    spark: SparkSession,
    tmp_path: Path,
    penstock_seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.pipeline.analyse.THROUGH", through)
    rng = random.Random(penstock_seed * 37 + turn)
    start = pen.source("generator", rows=ROWS, seed=turn).decode("json", schema=SCHEMA)
    line, plain = random_line(rng, start, 4, spark=False)
    sink = line.sink("localfile", name="out", path=str(tmp_path / "out"))
    flow = pen.pipeline(f"line-{turn}", sink)
    assert (analyse(flow.graph).through is not None) == through
    flow.run(tmp_path / "state", spark=spark)
    wanted = [made_ for record in made(turn) for made_ in plain(record)]
    assert written(tmp_path / "out") == multiset(wanted), flow.explain()
