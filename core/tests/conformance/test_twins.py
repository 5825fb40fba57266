"""Every clause has a broken twin, and the suite finds it out."""

import os
import sys
from pathlib import Path

import pytest

from penstock.conformance import catalogue
from penstock.conformance.report import run

HERE = Path(__file__).parent
METADATA = "Metadata-Version: 2.1\nName: penstock-lonely\nVersion: 1.0\n"

sys.path.insert(0, str(HERE))
try:
    from twins import heavy, lonely, queues, shapes, sinks, sources  # noqa: F401
    from twins.coders import CODERS
    from twins.making import TWINS
    from twins.transforms import TRANSFORMS
finally:
    sys.path.remove(str(HERE))

BROKEN = sorted({twin.clause for twin in TWINS} | set(CODERS) | set(TRANSFORMS))

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory):
    """What became of each twin's clause, from one run over all twins."""
    installed = tmp_path_factory.mktemp("installed")
    info = installed / "penstock_lonely-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(
        "[penstock.connectors]\nlonely = twins.lonely:connector\n"
    )
    path = os.pathsep.join(filter(None, [str(HERE), str(installed), os.environ.get("PYTHONPATH")]))
    arguments = ["-p", "no:randomly", "-W", "ignore", "-o", "addopts="]
    report = run(
        "twins",
        tests=HERE / "twins" / "suites.py",
        arguments=arguments,
        env={**os.environ, "PYTHONPATH": path},
    )
    found = {}
    for each in report.outcomes:
        found.setdefault(each.clause, []).append(each)
    return found, report


def test_every_clause_has_a_twin():
    assert [clause.id for clause in catalogue() if clause.id not in BROKEN] == []


@pytest.mark.parametrize("clause", BROKEN)
def test_the_twin_fails_its_clause(outcomes, clause):
    found, report = outcomes
    assert clause in found, report.output[-2000:]
    for each in found[clause]:
        assert each.outcome == "failed", f"{each.suite}: {each.outcome} ({each.reason})"
