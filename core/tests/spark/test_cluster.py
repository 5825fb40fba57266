import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(500)]


def lines(folder):
    files = [p for p in folder.iterdir() if p.is_file() and p.name[0] not in "._"]
    return [line for p in files for line in p.read_text().splitlines()]


def test_batch_stream_and_pipeline_run_where_executors_are_processes_of_their_own(tmp_path):
    driver = Path(__file__).with_name("cluster_driver.py")
    done = subprocess.run(
        [sys.executable, str(driver), str(tmp_path)], capture_output=True, text=True, timeout=480
    )
    assert done.returncode == 0, done.stderr[-3000:]
    records = [f"record {n}" for n in range(1000)]
    assert sorted(lines(tmp_path / "batch")) == sorted(records)
    assert sorted(lines(tmp_path / "stream")) == sorted(records)
    orders = [json.loads(line) for line in lines(tmp_path / "pipeline")]
    assert sorted(order["id"] for order in orders) == list(range(1000))
    assert {order["total"] for order in orders} == {1.0}
