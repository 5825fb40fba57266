"""What each connector of this repository must declare; nothing passes by declaring less.

And nothing is left out: every connector, coder and transform has a suite, no clause is waived, and
none is put aside by a test of the same name.
"""

import ast
from pathlib import Path

import pytest
from attrs import frozen

from penstock import registry
from penstock.conformance.clauses import SHAPES
from penstock.conformance.gate import sides
from penstock.contracts import CAPABILITIES, Coder, Promise
from penstock.contracts.options import parse

ROOT = Path(__file__).parents[3]
OURS = {"penstock"} | {f"penstock-{p.parent.name}" for p in ROOT.glob("plugins/*/pyproject.toml")}


@frozen
class Must:
    """The least a connector declares."""

    sides: set[str]
    capabilities: set[str]
    sink: dict | None = None
    promise: Promise | None = None


QUEUE = {"event-time", "headers", "keys", "lag", "limits-bytes", "live", "reconnects"}

MUST = {
    "amqp": Must({"queue", "sink"}, QUEUE, {"exchange": "x"}, Promise("append", "record")),
    "generator": Must({"replayable"}, {"event-time", "keys", "lag", "limits-bytes", "splits"}),
    "jms": Must(
        {"queue", "sink"},
        QUEUE | {"exactly-once"},
        {"url": "tcp://x:1", "queue": "q", "duplicate_detection": "artemis"},
        Promise("idempotent", "task"),
    ),
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
        {"servers": "x:1", "topic": "t"},
        Promise("idempotent", "task"),
    ),
    "localfile": Must(
        {"replayable", "sink"},
        {"exactly-once", "lag", "limits-bytes", "live", "splits", "typed"},
        {"path": "out"},
        Promise("idempotent", "task"),
    ),
    "remotefile": Must(
        {"replayable", "sink"},
        {"exactly-once", "lag", "limits-bytes", "live", "reconnects", "splits"},
        {"url": "sftp://host/out"},
        Promise("idempotent", "task"),
    ),
    "stdout": Must({"sink"}, set(), {}, Promise("append", "record")),
}

EVOLVE = {"avro", "json", "protobuf", "xml"}
"""Coders whose schemas can evolve: one of their suites must show it."""


@frozen
class Found:
    """A suite as its text says it."""

    base: str
    subject: str
    body: ast.ClassDef
    values: dict


def ours(kind):
    return [n for n in registry.names(kind) if registry.entry(kind, n).distribution in OURS]


def suites():
    """Every suite in the repository's tests: what it is about, and what it says, by its text."""
    found = []
    files = [
        *ROOT.glob("core/src/penstock/conformance/own/*.py"),
        *ROOT.glob("core/tests/**/test_*.py"),
        *ROOT.glob("plugins/*/src/*/conformance.py"),
        *ROOT.glob("plugins/*/tests/**/test_*.py"),
    ]
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
            found.append(Found(next(iter(bases)), _subject(values, file), made, values))
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
    if found.sink is not None:
        assert parse(found.sink, must.sink).promise() == must.promise


def suited(base):
    return {suite.subject for suite in suites() if suite.base == base}


def test_no_connector_is_left_out():
    assert set(ours("connectors")) - suited("ConnectorSuite") == set()


def test_no_coder_is_left_out():
    coders = {name for name in ours("coders") if issubclass(registry.coder(name), Coder)}
    assert coders - suited("CoderSuite") == set()


def test_no_transform_is_left_out():
    assert set(ours("transforms")) - suited("TransformSuite") == set()


def test_no_clause_is_waived():
    assert [suite.subject for suite in suites() if "waivers" in suite.values] == []


def test_no_suite_puts_a_clause_aside_by_a_test_of_its_name():
    prefixes = tuple(f"test_{shape.lower()}_" for shape in SHAPES)
    for suite in suites():
        names = [line.name for line in suite.body.body if isinstance(line, ast.FunctionDef)]
        assert [name for name in names if name.startswith(prefixes)] == [], suite.subject


def test_coders_whose_schemas_evolve_show_it():
    shown = {
        suite.subject
        for suite in suites()
        for word in ast.walk(suite.body)
        if isinstance(word, ast.keyword) and word.arg == "newer"
    }
    assert shown >= EVOLVE
