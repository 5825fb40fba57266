"""What each connector of this repository must declare; nothing passes by declaring less.

And nothing is left out: every connector and coder has a suite, without waivers that are not here.
"""

import ast
from pathlib import Path

import pytest
from attrs import field, frozen

from penstock import registry
from penstock.conformance.gate import ABOUT, sides
from penstock.contracts import CAPABILITIES, Coder

ROOT = Path(__file__).parents[3]
OURS = {"penstock"} | {f"penstock-{p.parent.name}" for p in ROOT.glob("plugins/*/pyproject.toml")}


@frozen
class Must:
    """The least a connector declares."""

    sides: set[str]
    capabilities: set[str]
    waivers: set[str] = field(factory=set)


QUEUE = {"event-time", "headers", "keys", "lag", "limits-bytes", "live", "reconnects"}

MUST = {
    "amqp": Must({"queue"}, QUEUE),
    "generator": Must({"replayable"}, {"event-time", "keys", "lag", "limits-bytes", "splits"}),
    "jms": Must({"queue", "sink"}, QUEUE | {"exactly-once"}),
    "kafka": Must(
        {"replayable", "sink"},
        {
            "event-time",
            "exactly-once",
            "headers",
            "keys",
            "lag",
            "live",
            "ordered-keys",
            "reconnects",
            "splits",
        },
    ),
    "localfile": Must(
        {"replayable", "sink"}, {"exactly-once", "lag", "limits-bytes", "live", "splits"}
    ),
    "remotefile": Must({"replayable", "sink"}, {"exactly-once", "lag", "live", "splits"}),
    # What a worker prints cannot be read back by the process that asks.
    "stdout": Must({"sink"}, set(), {"SNK-09", "SNK-17"}),
}


def ours(kind):
    return [n for n in registry.names(kind) if registry.entry(kind, n).distribution in OURS]


def suites():
    """Every suite in the repository's tests: what it is about, and its waivers, by its text."""
    found = []
    files = [*ROOT.glob("core/tests/**/test_*.py"), *ROOT.glob("plugins/*/tests/**/test_*.py")]
    for file in files:
        for made in ast.walk(ast.parse(file.read_text())):
            if not isinstance(made, ast.ClassDef):
                continue
            bases = {ast.unparse(base).rpartition(".")[2] for base in made.bases}
            if not bases & {"ConnectorSuite", "CoderSuite", "TransformSuite"}:
                continue
            values = {}
            for line in made.body:
                targets = line.targets if isinstance(line, ast.Assign) else []
                if isinstance(line, ast.AnnAssign):
                    targets = [line.target]
                for target in targets:
                    values[ast.unparse(target)] = line.value
            waived = values.get("waivers")
            found.append(
                (
                    next(iter(bases)),
                    _subject(values, file),
                    {key.value for key in waived.keys} if waived is not None else set(),
                )
            )
    return found


def _subject(values, file):
    subject = values.get("connector") or values.get("coder") or values.get("transform")
    if isinstance(subject, ast.Constant):
        return subject.value
    return file.relative_to(ROOT).parts[1] if "plugins" in file.parts else ast.unparse(subject)


@pytest.mark.parametrize("name", ours("connectors"))
def test_a_connector_declares_what_it_must(name):
    assert name in MUST, f"say in this table what {name} must declare"
    found, must = registry.connector(name), MUST[name]
    assert sides(found) >= must.sides
    assert found.capabilities >= must.capabilities
    assert found.capabilities <= set(CAPABILITIES)


def test_every_capability_is_about_some_shape():
    assert set(ABOUT) == set(CAPABILITIES)


def test_no_connector_is_left_out():
    tested = {subject for base, subject, _ in suites() if base == "ConnectorSuite"}
    assert set(ours("connectors")) - tested == set()


def test_no_coder_is_left_out():
    tested = {subject for base, subject, _ in suites() if base == "CoderSuite"}
    coders = {name for name in ours("coders") if issubclass(registry.coder(name), Coder)}
    assert coders - tested == set()


def test_no_transform_is_left_out():
    tested = {subject for base, subject, _ in suites() if base == "TransformSuite"}
    assert set(ours("transforms")) - tested == set()


def test_no_clause_is_waived_beyond_the_table():
    for base, subject, waived in suites():
        allowed = MUST[subject].waivers if base == "ConnectorSuite" and subject in MUST else set()
        assert waived <= allowed, f"{subject} waives {sorted(waived - allowed)}"
