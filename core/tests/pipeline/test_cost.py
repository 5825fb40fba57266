"""Declaring and explaining is cheap: no Spark, little CPU, many nodes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

import penstock as pen

DECLARE = """
import sys, time
import penstock as pen
flow = (
    pen.pipeline("p")
    .source("generator", rows=10)
    .decode("json", schema="id long, total double")
    .where("total > 1")
    .map(lambda r: r)
    .key_by("id")
    .sink("stdout", on="driver")
)
assert "fused" in flow.explain()
heavy = [m for m in ("pyspark", "py4j", "pandas", "pyarrow.compute") if m in sys.modules]
print(time.process_time(), *heavy)
"""
BASE = "import time, pyarrow, attrs, pluggy, importlib.metadata; print(time.process_time())"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with bytecode, as whoever runs a program twice has it."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(tmp_path_factory.mktemp("bytecode"))
    for code in (DECLARE, BASE):
        spent(code, env)
    return env


def spent(code: str, env: dict[str, str] | None = None) -> tuple[float, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=env,
    )
    seconds, *heavy = done.stdout.split()
    return float(seconds), heavy


def test_declaring_and_explaining_imports_no_spark_and_little_else() -> None:
    _, heavy = spent(DECLARE)
    assert heavy == []


def test_declaring_and_explaining_costs_little_beyond_its_libraries(
    compiled: dict[str, str],
) -> None:
    # Processor seconds stretch on a busy machine: hold it against Arrow's own import, in turns.
    turns = [(spent(DECLARE, compiled)[0], spent(BASE, compiled)[0]) for _ in range(4)]
    mine, base = map(min, zip(*turns, strict=True))
    assert mine < max(0.3, 2.5 * base), f"{mine:.2f} s against {base:.2f} s for libraries alone"


def test_two_hundred_nodes_are_analysed_in_a_tenth_of_a_second() -> None:
    flow = pen.pipeline("p").source("generator", rows=10)
    heads = [flow]
    for number in range(196):
        head = heads[number % len(heads)]
        made = head.where("true") if number % 3 else head.filter(lambda r: True)
        if number % 20 == 0:
            heads.append(made)
        else:
            heads[number % len(heads)] = made
    whole = heads[0]
    for head in heads[1:]:
        whole = whole.merge(head)
    graph = whole.sink("stdout", on="driver")
    assert len(graph.graph.nodes) >= 200
    took = []
    for _ in range(5):
        began = time.process_time()
        graph.analyse()
        took.append(time.process_time() - began)
    assert min(took) < 0.1, took
