"""The tutorial's commands, to the letter, in an empty environment; its Python runs in core/tests."""

import os
import re
import subprocess

import pytest

from tests.packaging import wheels
from tests.packaging.environments import Environment
from tests.template.places import ROOT

pytestmark = pytest.mark.packaging

TUTORIAL = ROOT / "sdk-docs" / "write" / "tutorial.md"


def commands():
    blocks = re.findall(r"^```console\n(.*?)^```$", TUTORIAL.read_text(), re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines), lines
    return [line.removeprefix("$ ") for line in lines]


@pytest.fixture
def shell(tmp_path):
    """Runs a command line where `pip` finds our wheels, as if they were published."""
    core = wheels.build()[0]
    environment = Environment(tmp_path / "env")
    bin = environment.python.parent
    (bin / "pip").write_text('#!/bin/sh\nexec uv pip "$@"\n')
    (bin / "pip").chmod(0o755)
    here = tmp_path / "here"
    here.mkdir()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK"))}
    places = {str(core.parent.resolve()), str(wheels.pyspark().parent)}
    clean |= {
        "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(environment.folder),
        "UV_FIND_LINKS": ",".join(sorted(places)),
    }

    def run(line):
        done = subprocess.run(
            ["bash", "-c", line], cwd=here, env=clean, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"$ {line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    return run


@pytest.mark.timeout(600)
def test_every_command_does_what_it_says(shell):
    said = {line: shell(line) for line in commands()}
    assert "/penstock-tide" in next(out for line, out in said.items() if "new tide" in line)
    report = next(out for line, out in said.items() if "conformance tide" in line)
    assert report.startswith("tide (penstock-tide 0.1.0), suite ")
    assert "\nok: " in report
