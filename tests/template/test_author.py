"""The figure: a new queue connector over a given client, as an author would write it."""

import difflib
import os
import shutil
import tomllib
from pathlib import Path

import pytest

from penstock.conformance.report import run
from penstock.scaffold import new
from tests.template.places import with_spark

AUTHOR = Path(__file__).with_name("author")
OWN = ("connector.py", "queue.py", "testing.py")
MOST = 120
CLIENT = 30


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The template's project with the given client and the author's files put in."""
    folder = tmp_path_factory.mktemp("author")
    made = new("desk", "queue", folder=folder)
    shutil.copytree(made, folder / "as-generated")
    package = made / "src" / "penstock_desk"
    (package / "broker.py").unlink()  # the desk has no server
    for name in ("client.py", *OWN):
        shutil.copy(AUTHOR / name, package / name)
    return made


def own_lines(project):
    """Lines of the author's own: those that the template did not have."""
    count = 0
    for name in OWN:
        now = (project / "src" / "penstock_desk" / name).read_text().splitlines()
        before = project.parent / "as-generated" / "src" / "penstock_desk" / name
        changes = difflib.ndiff(before.read_text().splitlines(), now)
        count += sum(line.startswith("+ ") and bool(line[2:].strip()) for line in changes)
    return count


def suite(project, *arguments):
    info = project.parent / "installed" / "penstock_desk-0.1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock-desk\nVersion: 0.1.0\n")
    groups = tomllib.loads((project / "pyproject.toml").read_text())["project"]["entry-points"]
    points = [
        line
        for group, named in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in named.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(points) + "\n")
    path = os.pathsep.join(
        filter(None, [str(project / "src"), str(info.parent), os.environ.get("PYTHONPATH")])
    )
    return run(
        "desk",
        tests=project / "tests" / "test_conformance.py",
        arguments=[*arguments, "-c", str(project / "pyproject.toml"), "--timeout=300"],
        env={**os.environ, "PYTHONPATH": path},
    )


def test_the_client_is_given_and_small():
    lines = [line for line in (AUTHOR / "client.py").read_text().splitlines() if line.strip()]
    assert len(lines) <= CLIENT


def test_the_authors_own_lines_are_at_most_120(project):
    assert own_lines(project) <= MOST, f"{own_lines(project)} lines"


def test_what_the_author_wrote_keeps_the_clauses(project):
    report = suite(project, "-k", f"not ({with_spark()})")
    assert report.ok, f"{report}\n{report.output[-3000:]}"
    assert report.counts["waived"] == 0
    assert report.counts["passed"] >= 18


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_what_the_author_wrote_keeps_all_clauses_through_spark(project):
    report = suite(project, "-k", with_spark())
    assert report.ok, f"{report}\n{report.output[-3000:]}"
    assert report.counts["passed"] >= 9
