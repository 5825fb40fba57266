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
    from twins import heavy, lazy, lonely, queues, shapes, sinks, sources, typed  # noqa: F401
    from twins.coders import CODERS
    from twins.making import TWINS
    from twins.reasons import REASONS
    from twins.transforms import TRANSFORMS
finally:
    sys.path.remove(str(HERE))

BROKEN = sorted({twin.clause for twin in TWINS} | set(CODERS) | set(TRANSFORMS))

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


# Twins that need killed drivers or pipelines take a minute each: but for one they run in `full`.
SLOW = {
    *("SRC-04", "SHP-06", "SNK-09", "ERR-02", "ERR-03", "ERR-04"),
    *("QUE-01", "QUE-02", "QUE-03", "QUE-04", "QUE-20"),
}


def ran(folder, which):
    """What became of each twin's clause, from one run over many twins, in a process of its own."""
    info = folder / "penstock_lonely-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(
        "[penstock.connectors]\nlonely = twins.lonely:connector\n"
    )
    path = os.pathsep.join(filter(None, [str(HERE), str(folder), os.environ.get("PYTHONPATH")]))
    report = run(
        "twins",
        tests=HERE / "twins" / "suites.py",
        arguments=["-W", "ignore", "-o", "addopts=", "--tb=no"],
        env={**os.environ, "PYTHONPATH": path, "PENSTOCK_TWINS": ",".join(sorted(which))},
    )
    found = {}
    for each in report.outcomes:
        found.setdefault(each.clause, []).append(each)
    return found, report


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory):
    return ran(tmp_path_factory.mktemp("installed"), set(BROKEN) - SLOW)


@pytest.fixture(scope="session")
def slow_outcomes(tmp_path_factory):
    return ran(tmp_path_factory.mktemp("installed"), SLOW)


def judge(outcomes, clause):
    found, report = outcomes
    assert clause in found, report.output[-2000:]
    for each in found[clause]:
        assert each.outcome == "failed", f"{each.suite}: {each.outcome} ({each.reason})"
        twin = each.suite.removeprefix("Test").removeprefix("twin-")
        reason = REASONS.get(clause, {}).get(twin, "")
        assert reason in each.reason, f"{twin} fails for another reason: {each.reason}"


def test_every_clause_has_a_twin():
    assert [clause.id for clause in catalogue() if clause.id not in BROKEN] == []


def test_every_twin_of_the_default_run_has_a_reason():
    twins = {(twin.clause, twin.connector.name.removeprefix("twin-")) for twin in TWINS}
    twins |= {(clause, cls.__name__) for clause, cls in (CODERS | TRANSFORMS).items()}
    told = {(clause, name) for clause, reasons in REASONS.items() for name in reasons}
    assert told <= twins
    assert {(clause, name) for clause, name in twins - told if clause not in SLOW} == set()


@pytest.mark.parametrize("clause", sorted(set(BROKEN) - SLOW))
def test_the_twin_fails_its_clause(outcomes, clause):
    judge(outcomes, clause)


@pytest.mark.slow
@pytest.mark.timeout(2700)  # the first one runs them all
@pytest.mark.parametrize("clause", sorted(SLOW))
def test_the_twin_that_needs_a_kill_fails_its_clause(slow_outcomes, clause):
    judge(slow_outcomes, clause)
