"""Spark Connect: a client and a server, both from the installed Spark."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

NEEDED = ("grpc", "grpc_status", "zstandard")
MISSING = [name for name in NEEDED if find_spec(name) is None]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}: uv sync --group connect"),
]


@pytest.fixture(scope="module")
def saw(tmp_path_factory):
    # A process has one kind of session: this one has a classic one.
    folder = tmp_path_factory.mktemp("connect")
    script = Path(__file__).with_name("connected.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_client_is_one_of_connect(saw):
    assert saw["client"] == "pyspark.sql.connect.session"


@pytest.mark.parametrize("how", ["read", "written", "streamed"])
def test_plain_formats_work(saw, how):
    assert saw[how] == ['{"id": 1}', '{"id": 2}']


def test_read_and_decode_work(saw):
    assert saw["decoded"] == [1, 2]


def test_an_unknown_option_is_refused_by_name(saw):
    assert "the option pth is unknown" in saw["unknown"]


def test_a_pipeline_says_that_it_needs_a_classic_session(saw):
    assert "a pipeline needs a classic Spark session" in saw["pipeline"]
    assert "Spark Connect" in saw["pipeline"]
