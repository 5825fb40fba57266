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

pytestmark = [pytest.mark.spark, pytest.mark.slow]
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


def test_spark_runs_the_expressions_and_shuffles_that_explain_shows(ran: dict[str, Any]) -> None:
    plans = "\n".join(ran["plans"])
    stages = ran["explained"]["phases"][-1]["stages"]
    names = [stage["name"] for stage in stages if stage["runs"] == "spark"]
    assert {"where", "even", "split", "merge-sort"} <= set(names)
    assert re.search(r"total\S* > 50", plans)
    assert re.search(r"id\S* % 2", plans)
    assert re.search(r"hashpartitioning\(_pen\S*\.key", plans)
    assert "MapInArrow" in plans
