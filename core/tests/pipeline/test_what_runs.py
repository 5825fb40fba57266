"""What explain shows is what runs: the fused part by a trace, Spark's part by its plans."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run in a process of its own: the observer must be known before Spark starts workers."""
    folder = tmp_path_factory.mktemp("traced")
    env = os.environ | {
        "PENSTOCK_OBSERVER": "core.tests.pipeline.tracing:note",
        "TRACE": str(folder),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "core.tests.pipeline.traced", str(folder)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    calls = [
        tuple(json.loads(line))
        for file in folder.glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    return {**json.loads(done.stdout.splitlines()[-1]), "calls": calls}


def python_stages(explained: dict[str, Any]) -> set[tuple[str, str]]:
    """Those stages of the last phase that a chain runs, with where."""
    frames = {"where", "split", "merge-sort", "merge", "mirror", "select"}
    return {
        (stage["runs"], stage["name"])
        for stage in explained["phases"][-1]["stages"]
        if stage["kind"] not in ("source", "sink") and stage["what"] not in frames
    }


def test_workers_called_the_stages_that_explain_puts_there(ran: dict[str, Any]) -> None:
    shown = python_stages(ran["explained"])
    assert {role for role, _ in shown} == {"reader", "spark", "writer"}
    assert set(ran["calls"]) == shown


SECTION = re.compile(r"^\(\d+\) ([A-Za-z]+)[^\n]*\n((?:(?!^\(\d+\) ).+\n?)*)", re.MULTILINE)
SHUFFLES = {
    "by key": re.compile(r"hashpartitioning\(_pen\S*\.key"),
    "round robin": re.compile(r"RoundRobinPartitioning"),
    "merge-sort": re.compile(r"SinglePartition"),
}


def operators(plans: list[str], name: str) -> list[str]:
    """What Spark's plans say of each operator of a name."""
    return [said for plan in plans for found, said in SECTION.findall(plan) if found == name]


def test_spark_runs_the_expressions_that_explain_shows_and_no_other(ran: dict[str, Any]) -> None:
    shown = [s for s in spark_stages(ran["explained"]) if s["what"] == "where"]
    assert [stage["name"] for stage in shown] == ["where", "even"]
    conditions = operators(ran["plans"], "Filter")
    assert len(conditions) == len(shown), conditions
    for predicate in (r"total\S* > 50", r"id\S* % 2"):
        assert len([c for c in conditions if re.search(predicate, c)]) == 1, conditions


def test_spark_shuffles_where_explain_shows_a_split_or_a_merge(ran: dict[str, Any]) -> None:
    network = [s for s in spark_stages(ran["explained"]) if s["kind"] in ("split", "merge-sort")]
    assert [stage["kind"] for stage in network] == ["split", "merge-sort"]
    exchanges = operators(ran["plans"], "Exchange")
    found = [kind for said in exchanges for kind, sign in SHUFFLES.items() if sign.search(said)]
    assert sorted(found) == ["by key", "merge-sort"], exchanges
    assert len(exchanges) == len(network)
    assert len(operators(ran["plans"], "Sort")) == len(network)


def test_python_is_called_from_spark_where_explain_shows_it(ran: dict[str, Any]) -> None:
    segments = ran["explained"]["segments"]
    between = [s for s in segments if s["runs"] == "spark" and python_in(s, ran["explained"])]
    tasks = [s for s in segments if s["runs"] == "writer"]
    forks = [s for s in segments if len([r for r in segments if s["name"] in r["inputs"]]) > 1]
    # A fork is staged by one call; who reads the stage in Spark, and not in its own task, by one.
    readers = [s for s in segments if s["runs"] == "spark" and set(s["inputs"]) & names(forks)]
    wanted = len(between) + len(tasks) + len(forks) + len(readers)
    assert len(operators(ran["plans"], "MapInArrow")) == wanted


def names(segments: list[dict[str, Any]]) -> set[str]:
    return {segment["name"] for segment in segments}


def spark_stages(explained: dict[str, Any]) -> list[dict[str, Any]]:
    return [stage for stage in explained["phases"][-1]["stages"] if stage["runs"] == "spark"]


def python_in(segment: dict[str, Any], explained: dict[str, Any]) -> bool:
    chained = {name for _, name in python_stages(explained)}
    return bool(chained & set(segment["stages"]))
