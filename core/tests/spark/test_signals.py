"""SIGTERM and Ctrl-C: who hears them, and what a running pipeline makes of them."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.conformance.waiting import until
from penstock.spark.signals import asked_to_stop


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_and_the_second_does_what_it_did_before(number):
    heard = []
    before = signal.signal(number, lambda *_: heard.append("before"))
    try:
        with asked_to_stop() as asked:
            assert not asked
            os.kill(os.getpid(), number)
            assert asked
            assert heard == []
            os.kill(os.getpid(), number)
            assert heard == ["before"]
        os.kill(os.getpid(), number)
        assert heard == ["before", "before"]
    finally:
        signal.signal(number, before)


def test_who_listens_inside_leaves_the_signal_to_who_listens_around():
    before = signal.getsignal(signal.SIGTERM)
    with asked_to_stop() as around:
        with asked_to_stop() as inside:
            os.kill(os.getpid(), signal.SIGTERM)
        assert around
        assert not inside
    assert signal.getsignal(signal.SIGTERM) is before


def test_off_the_main_thread_no_signal_is_taken():
    before = signal.getsignal(signal.SIGTERM)
    found = []

    def listen():
        with asked_to_stop() as asked:
            found.extend([signal.getsignal(signal.SIGTERM), bool(asked)])

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join(10)
    assert found == [before, False]


SCRIPT = """
import sys, time
from pathlib import Path
import penstock as pen

folder = Path(sys.argv[1])

def slow(rows):
    begun = folder / "begun"
    begun.touch()
    deadline = time.monotonic() + 60
    while not (folder / "go-on").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return rows

flow = (
    pen.pipeline("slow")
    .source("generator", rate=1000)
    .limits(max_rows=50)
    .map_batches(slow)
    .sink("localfile", path=str(folder / "out"))
)
handle = flow.run(checkpoint=folder / "state")
assert handle.wait()
assert not handle.running
print("after the wait", flush=True)
"""

FILE = """
name: slow
source: {generator: {rate: 1000}}
steps:
  - map_batches: slowly:slow
sink: {localfile: {path: OUT}}
limits: {max_rows: 50}
"""


def started(tmp_path, how):
    """A driver of its own in a process group of its own, as a shell would start it."""
    environment = dict(os.environ)
    if how == "script":
        (tmp_path / "script.py").write_text(SCRIPT)
        command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path)]
    else:
        body = SCRIPT[: SCRIPT.index("flow = (")].replace("sys.argv[1]", repr(str(tmp_path)))
        (tmp_path / "slowly.py").write_text(body)
        (tmp_path / "slow.yaml").write_text(FILE.replace("OUT", str(tmp_path / "out")))
        environment["PYTHONPATH"] = f"{tmp_path}:{environment.get('PYTHONPATH', '')}"
        command = [sys.executable, "-m", "penstock", "run", str(tmp_path / "slow.yaml")]
        command += ["--checkpoint", str(tmp_path / "state"), "--master", "local[1]"]
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def numbers(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.iterdir() if path.name.isdigit()}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("how", "number"),
    [
        ("script", signal.SIGINT),
        pytest.param("script", signal.SIGTERM, marks=pytest.mark.slow),
        ("command", signal.SIGTERM),
    ],
)
def test_a_signal_in_mid_batch_finishes_the_batch_and_ends_cleanly(tmp_path, how, number):
    process = started(tmp_path, how)
    try:
        until(
            lambda: (tmp_path / "begun").exists() or process.poll() is not None,
            within=90,
            why="a batch is at work",
        )
        assert process.poll() is None, process.stdout.read()
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # a terminal's Ctrl-C reaches the whole group
        else:
            process.send_signal(number)
        (tmp_path / "go-on").touch()
        said, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert ("after the wait" in said) is (how == "script")
    state = tmp_path / "state"
    done = numbers(state / "commits")
    assert done
    assert numbers(state / "offsets") - done <= {max(done) + 1}
    files = [p for p in (tmp_path / "out").iterdir() if p.is_file() and p.name[0] not in "._"]
    ids = sorted(json.loads(line)["id"] for p in files for line in p.read_text().splitlines())
    assert ids
    assert ids == list(range(len(ids)))
