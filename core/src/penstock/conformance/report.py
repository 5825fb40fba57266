"""Run the suite of an installed plugin and say what became of each clause."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    entry_points,
    version,
)
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlparse

from attrs import asdict, frozen

from penstock import registry
from penstock.conformance.clauses import SHAPES
from penstock.conformance.server import missing, named, naming
from penstock.contracts.errors import PenstockError, SetupError, UnknownNameError, did_you_mean

GROUP = "penstock.conformance"
"""Entry points that name a module with a plugin's suites."""
KINDS: tuple[Literal["connectors", "coders", "transforms"], ...] = (
    "connectors",
    "coders",
    "transforms",
)


@frozen
class Outcome:
    """What became of one clause."""

    suite: str
    clause: str
    title: str
    outcome: str
    reason: str
    proof: str
    seconds: float


@frozen
class Report:
    """What the suite found.

    Attributes:
        name: Of the connector, coder or transform; or the file that was run.
        distribution: The distribution it comes from, with its version; empty if unknown.
        suite: The version of the suite: of the penstock that ran it.
        seed: Of the data; the same seed repeats the run.
        proof: Against what: `real server`, `emulator` or `no server`.
        untried: What the place could not show, with the reason: clauses that need it are skipped,
            and others ask for less.
        outcomes: One per clause and suite.
        output: What pytest printed, for those who want to see why.
    """

    name: str
    distribution: str
    suite: str
    seed: int
    proof: str
    untried: dict[str, str]
    outcomes: tuple[Outcome, ...]
    output: str = ""

    @property
    def counts(self) -> dict[str, int]:
        found = Counter(each.outcome for each in self.outcomes)
        return {kind: found[kind] for kind in ("passed", "failed", "error", "waived", "skipped")}

    @property
    def ok(self) -> bool:
        """Something was proved, and nothing failed."""
        return self.counts["passed"] > 0 and not self.counts["failed"] and not self.counts["error"]

    def to_json(self) -> dict[str, Any]:
        """What `--json` prints and the report file holds."""
        whole = asdict(self, filter=lambda attribute, _: attribute.name != "output")
        return {**whole, "ok": self.ok, "counts": self.counts}

    def __str__(self) -> str:
        lines = [
            f"{self.name} ({self.distribution or 'not installed'}), suite {self.suite}, "
            f"against {self.proof or 'no server'}, seed {self.seed}"
        ]
        lines += [f"  untried: {what} ({why})" for what, why in self.untried.items()]
        several = len({each.suite for each in self.outcomes}) > 1
        suite = ""
        for each in self.outcomes:
            if several and each.suite != suite:
                suite = each.suite
                lines.append(f" {suite}")
            mark = {"passed": "ok", "skipped": "--", "waived": "WAIVED"}.get(each.outcome, "FAILED")
            lines.append(f"  {mark:<6} {each.clause}  {each.title}")
            if each.outcome != "passed" and each.reason:
                why = each.reason.splitlines()[0].removeprefix(f"{each.clause}: ")
                lines.append(f"                 {why[:160]}")
        said = ", ".join(f"{count} {kind}" for kind, count in self.counts.items() if count)
        return "\n".join([*lines, f"{'ok' if self.ok else 'NOT OK'}: {said or 'nothing was run'}"])


def run(
    name: str,
    *,
    tests: str | Path | Sequence[str | Path] | None = None,
    seed: int | None = None,
    output: str | Path | None = None,
    server: str | None = None,
    options: Mapping[str, str] | None = None,
    emulator: bool = False,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Report:
    """Run the conformance suite of an installed plugin, in a process of its own.

    Args:
        name: Of an installed connector, coder or transform.
        tests: The file (or files) with its suite, or an importable module; left out, it is
            found: by the entry point `penstock.conformance` of that name, else as
            `tests/test_conformance.py` of a distribution installed from its source tree.
        seed: Of the data, to repeat an earlier run.
        output: Write the report there too, as JSON.
        server: Where the server is, for a suite that runs against one; else PENSTOCK_SERVER.
        options: What else it takes to get in; else PENSTOCK_SERVER_OPTIONS.
        emulator: The server is an emulator: the report says so.
        arguments: Further arguments for pytest (`-k SRC`, `-x`).
        env: The environment of the process, if not this one's.

    Raises:
        UnknownNameError: nothing of that name is installed, and no tests were given.
        SetupError: pytest is not there, the suite cannot be found, no server is named for one
            that needs it, or it cannot be run.
    """
    if find_spec("pytest") is None:
        raise SetupError(
            "the conformance suite needs pytest", fix='pip install "penstock[conformance]"'
        )
    # Not as arguments: other users of the machine can read those, and passwords may be in them.
    said = naming(server, options or {}, emulator)
    whole = {**(os.environ if env is None else env), **said}
    files = _given(tests) if tests is not None else _found(name, whole)
    with tempfile.TemporaryDirectory(prefix="penstock-conformance-") as folder:
        written = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        # A project's own settings of pytest may leave marked tests out: here every clause counts.
        command += ["--import-mode=importlib", "-m", "", f"--penstock-report={written}", *arguments]
        if seed is not None:
            command.append(f"--penstock-seed={seed}")
        done = subprocess.run(
            [*command, *files],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=whole,
        )
        if done.returncode > 1 or not written.exists():
            raise SetupError(
                "the suite could not be run", got=done.stdout[-3000:], fix="see pytest's words"
            )
        found = json.loads(written.read_text(encoding="utf-8"))
    untried = {what: why for row in found["clauses"] for what, why in row.pop("untried").items()}
    outcomes = _in_order([Outcome(**row) for row in found["clauses"]])
    proofs = sorted({each.proof for each in outcomes if each.proof})
    report = Report(
        name=name,
        distribution=_distribution(name),
        suite=version("penstock"),
        seed=found["seed"],
        proof=", ".join(proofs),
        untried=untried,
        outcomes=outcomes,
        output=done.stdout,
    )
    if output is not None:
        text = json.dumps(report.to_json(), indent=2) + "\n"
        Path(output).write_text(text, encoding="utf-8")
    return report


def _in_order(outcomes: list[Outcome]) -> tuple[Outcome, ...]:
    """By suite as they were run, within a suite as the documentation lists them."""
    suites = list(dict.fromkeys(each.suite for each in outcomes))
    shapes = list(SHAPES)

    def place(each: Outcome) -> tuple[int, int, str]:
        return suites.index(each.suite), shapes.index(each.clause[:3]), each.clause

    return tuple(sorted(outcomes, key=place))


def _given(tests: str | Path | Sequence[str | Path]) -> list[str]:
    given = [tests] if isinstance(tests, str | Path) else list(tests)
    return [_file_or_module(str(each)) for each in given]


def _file_or_module(given: str) -> str:
    if Path(given).exists():
        return given
    if all(part.isidentifier() for part in given.split(".")):
        return _file_of(given)
    raise SetupError("there is no such test file", got=given)


def _file_of(module: str, who: str | None = None) -> str:
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise SetupError(f"the module {module} cannot be found", who=who)
    return spec.origin


def _found(name: str, environment: Mapping[str, str]) -> list[str]:
    """The suite of what is installed: as its distribution says, else beside its sources."""
    for point in entry_points(group=GROUP, name=name):
        _must_have_server(name, point.module, environment)
        return [_file_of(point.module, who=name), f"--penstock-subject={name}"]
    entry = _entry(name)
    if entry is None:
        known = [each for kind in KINDS for each in registry.names(kind)]
        raise UnknownNameError(
            f"nothing named {name!r} is installed",
            expected="one of " + ", ".join(known),
            fix=did_you_mean(name, known) or "install it, or name its test file with --tests",
        )
    source = _source_tree(distribution(entry.distribution))
    if source is not None and (source / "tests" / "test_conformance.py").exists():
        return [str(source / "tests" / "test_conformance.py")]
    raise SetupError(
        f"{entry.who} does not say where its conformance suite is",
        expected=f'an entry point "{name}" of the group "{GROUP}", which names a module',
        fix="name its test file or module with --tests",
    )


def _must_have_server(name: str, module: str, environment: Mapping[str, str]) -> None:
    """Say at once what is missing, not once for each clause."""
    if named(environment) is not None:
        return
    try:
        suites = vars(import_module(module)).values()
    except ImportError as error:
        raise SetupError(
            f"the suite of {name} cannot be imported: {error}",
            fix=f"install what {module} needs",
        ) from error
    for suite in suites:
        if getattr(suite, "connector", None) == name and getattr(suite, "server", ""):
            raise missing(name, suite.server)


def _entry(name: str) -> registry.Entry | None:
    for kind in KINDS:
        try:
            return registry.entry(kind, name)
        except PenstockError:
            continue
    return None


def _distribution(name: str) -> str:
    entry = _entry(name)
    return "" if entry is None else f"{entry.distribution} {entry.version}"


def _source_tree(found: Distribution) -> Path | None:
    """Where an editable install has its sources."""
    try:
        text = found.read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    if text is None:
        return None
    url = json.loads(text)
    if not url.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlparse(url["url"]).path))
