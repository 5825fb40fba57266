"""The pytest plugin that comes with `penstock[conformance]`: a printed seed, a report."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.conformance.server import Server

# Asserts of the clauses explain themselves only if pytest rewrites the modules they are in.
for _name in ("coders", "killed", "looking", "options", "queues", "shapes", "sinks", "sources"):
    pytest.register_assert_rewrite(f"penstock.conformance.{_name}")
for _name in ("errors", "own", "piped", "queued", "through_spark", "transforms", "typed"):
    pytest.register_assert_rewrite(f"penstock.conformance.{_name}")

SEED = pytest.StashKey[int]()
ROWS = pytest.StashKey[list[dict[str, Any]]]()
REASON = pytest.StashKey[tuple[bool, str]]()
PROOF = pytest.StashKey[str]()
UNTRIED = pytest.StashKey[dict[str, str]]()
ROW = "penstock_clause"
"""Under this name a report carries its row from process to process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("penstock")
    group.addoption(
        "--penstock-seed",
        type=int,
        default=None,
        help="seed of all generated test data; printed in the header of every run",
    )
    group.addoption(
        "--penstock-report",
        default=None,
        metavar="FILE",
        help="write what became of each conformance clause to this JSON file",
    )
    group.addoption(
        "--penstock-subject",
        default=None,
        metavar="NAME",
        help="run only the suites of the connector, coder or transform of this name",
    )


def pytest_configure(config: pytest.Config) -> None:
    given = config.getoption("--penstock-seed")
    if given is None:
        # A process of pytest-xdist is told the seed that the header prints.
        given = getattr(config, "workerinput", {}).get("penstock_seed")
    config.stash[SEED] = random.SystemRandom().randrange(2**32) if given is None else given
    config.stash[ROWS] = []
    config.pluginmanager.register(Rows(config.stash[ROWS]), "penstock-rows")


class Rows:
    """Collects what became of the clauses, also from the processes of pytest-xdist."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._rows += [row for name, row in report.user_properties if name == ROW]  # type: ignore[misc]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give each process of pytest-xdist this run's seed."""
    node.workerinput["penstock_seed"] = node.config.stash[SEED]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a module with several suites, leave those of the subject that was asked for."""
    wanted = config.getoption("--penstock-subject")
    if wanted is None:
        return
    left = [item for item in items if _subject(item) not in (None, wanted)]
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=left)


def _subject(item: pytest.Item) -> str | None:
    """What the suite of a test is about, if it is named."""
    suite = getattr(item, "cls", None)
    for kind in ("connector", "coder", "transform"):
        about = getattr(suite, kind, None)
        if about is not None:
            return about if isinstance(about, str) else getattr(about, "name", None)
    return None


def pytest_report_header(config: pytest.Config) -> str:
    return f"penstock seed: {config.stash[SEED]} (repeat with --penstock-seed={config.stash[SEED]})"


@pytest.fixture(scope="session")
def penstock_seed(request: pytest.FixtureRequest) -> int:
    """The seed this run's data comes from."""
    return request.config.stash[SEED]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local session for the whole run, small and quiet; Spark's start is the costly part."""
    from penstock.conformance import quick
    from penstock.spark.session import session

    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.streaming.numRecentProgressUpdates": "20",
    }
    with quick.starting():
        made = session(master="local[2]", name="tests", **settings)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def penstock_server() -> Server:
    """The server that the user names; a test file that starts one of its own overrides this."""
    from penstock.conformance.server import missing, named

    found = named(os.environ)
    if found is None:
        pytest.fail(str(missing("this connector", "as its suite says")), pytrace=False)
    return found


@pytest.fixture(scope="session")
def penstock_spark() -> Any:
    """The Spark session that all clauses of a run share; an active one is taken as it is."""
    from penstock.conformance import quick
    from penstock.conformance.under_test import Ledger, UnderTest
    from penstock.spark.session import session

    with quick.starting():
        spark = session("local[2]", "conformance")
    spark.dataSource.register(UnderTest)
    spark.dataSource.register(Ledger)
    return spark


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Note what became of each clause, whichever suite it belongs to."""
    report = yield
    clause = getattr(getattr(item, "function", None), "__clause__", None)
    if clause is not None and (report.when == "call" or report.outcome != "passed"):
        waived, reason = item.stash.get(REASON, (False, ""))
        outcome = report.outcome
        if outcome == "failed":
            reason = str(call.excinfo.value) if call.excinfo else str(report.longrepr)
        elif outcome == "skipped":
            reason = reason or _why(report)
            outcome = "waived" if waived else outcome
        row = {
            "suite": item.cls.__name__ if isinstance(item, pytest.Function) and item.cls else "",
            "clause": clause.id,
            "title": clause.title,
            "outcome": outcome if report.when == "call" or outcome != "failed" else "error",
            "reason": reason,
            "proof": item.stash.get(PROOF, ""),
            "seconds": round(report.duration, 3),
            "untried": item.stash.get(UNTRIED, {}),
        }
        report.user_properties.append((ROW, row))
    return report


def _why(report: pytest.TestReport) -> str:
    where = report.longrepr
    return str(where[2]).removeprefix("Skipped: ") if isinstance(where, tuple) else str(where)


def pytest_sessionfinish(session: pytest.Session) -> None:
    target = session.config.getoption("--penstock-report")
    # A process of pytest-xdist knows its own share only: the one that started it writes.
    if target and not hasattr(session.config, "workerinput"):
        rows = session.config.stash[ROWS]
        text = json.dumps({"seed": session.config.stash[SEED], "clauses": rows}, indent=2)
        Path(target).write_text(text, encoding="utf-8")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    waived = [row for row in config.stash[ROWS] if row["outcome"] == "waived"]
    if waived:
        terminalreporter.section("waived conformance clauses")
        for row in waived:
            terminalreporter.line(f"{row['suite']} {row['clause']} {row['title']}: {row['reason']}")
