"""The command lines of `sdk-docs/operate/cluster.md` on a real standalone cluster: a master and a
worker as processes of their own, and nothing on the executors but what the archive brings."""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest

from penstock.conformance.waiting import until
from tests.brokers.ports import free_port
from tests.packaging import wheels

PAGE = wheels.ROOT / "sdk-docs" / "operate" / "cluster.md"
PIPELINE = """
import json, sys
import penstock as pen


def seen(record):
    record["python"] = sys.executable
    return record


flow = (
    pen.pipeline("on-a-cluster")
    .source("generator", rows=2_000, seed=7)
    .decode("json", schema="id long")
    .map(seen, schema="id long, python string")
    .sink("spark", format="json", path=sys.argv[1])
)
flow.run(checkpoint=sys.argv[2]).wait()
conf = pen.session().sparkContext.getConf()
print(json.dumps({"master": conf.get("spark.master")}))
"""

# It makes an archive of a whole environment, PySpark's jars included.
pytestmark = [pytest.mark.packaging, pytest.mark.slow, pytest.mark.timeout(900)]


def lines():
    """What the page tells a user to type."""
    [block] = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    return [line.replace("\\\n", " ") for line in re.split(r"^\$ ", block, flags=re.M) if line]


@contextmanager
def cluster(home, folder, env):
    """A master and one worker, on ports that are free."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    said, running = folder / "cluster.log", []
    with said.open("w") as log:

        def start(what, *arguments):
            daemon = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}"]
            command = [*daemon, "--host", "127.0.0.1", *arguments]
            running.append(subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log))

        try:
            start("master.Master", "--port", str(port), "--webui-port", "0")
            until(
                lambda: "I have been elected leader" in said.read_text(),
                within=60,
                why="the master leads",
            )
            work = ("--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work"))
            start("worker.Worker", *work, "--webui-port", "0", address)
            until(
                lambda: "Registering worker" in said.read_text(),
                within=60,
                why="the worker is known",
            )
            yield address
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait(30)


def test_a_pipeline_is_submitted_with_its_environment_as_an_archive(tmp_path):
    make, pack, submit = lines()
    constraints = tmp_path / "constraints.txt"
    given = [*wheels.build(), wheels.pyspark()]
    constraints.write_text("\n".join(map(wheels.requirement, given)))
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK", "SPARK"))
    }
    path = f"{tmp_path}/pyenv/bin{os.pathsep}{os.path.dirname(sys.executable)}"
    env = clean | {
        "PATH": f"{path}{os.pathsep}{clean['PATH']}",
        "PIP_CONSTRAINT": str(constraints),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }

    def typed(line, within=400):
        done = subprocess.run(
            line, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=within
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        return done.stdout

    typed(make)
    typed(pack)
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    [home] = tmp_path.glob("pyenv/lib/*/site-packages/pyspark")
    with cluster(home, tmp_path, env) as address:
        assert "spark://host:7077" in submit
        line = submit.replace("spark://host:7077", address).strip()
        told = typed(f"{line} {tmp_path}/out {tmp_path}/state").splitlines()[-1]
    assert json.loads(told) == {"master": address}
    files = (tmp_path / "out").glob("*.json")
    found = [json.loads(row) for file in files for row in file.read_text().splitlines()]
    assert sorted(row["id"] for row in found) == list(range(2_000))
    for python in {row["python"] for row in found}:
        assert python.startswith(f"{tmp_path}/work/"), "an executor has its own"
