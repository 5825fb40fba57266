"""Clauses that take a real driver, killed in the middle of a batch and started again.

A run costs several lives of a Spark driver, so each kind of run happens once per suite class,
and several clauses look at what it left.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from penstock.conformance.clauses import clause
from penstock.conformance.driver import SPEC
from penstock.conformance.kill import Driver
from penstock.conformance.ledger import Attempt, attempts
from penstock.conformance.once import Once
from penstock.conformance.oracle import Oracle
from penstock.conformance.records import KEYS, Record, envelopes, made
from penstock.conformance.reference.segments import append
from penstock.conformance.rig import Rig, proved
from penstock.conformance.server import named
from penstock.conformance.shapes import where
from penstock.conformance.waiting import quiet, until
from penstock.contracts import Secret
from penstock.contracts.options import specs

FOLDER = "penstock.conformance.reference.folder:connector"
ROWS = 900
LIMIT = 150
LIFE = 240.0
IDLE = 1.5
"""Seconds without any point reached after which a stream has nothing left to do."""
NOTICED = 20.0
"""Seconds in which a broker notices that a consumer's process is gone."""


@frozen
class Run:
    """What a killed and restarted driver left behind."""

    oracle: Oracle
    records: list[Record]
    folder: Path
    lives: int
    ids: list[str]
    left: list[str]
    before: list[str]
    attempts: list[Attempt]


class KilledClauses(Once):
    """Replay, acknowledgement and exactly-once, under kill -9."""

    def _source(self, rig: Rig) -> Run:
        return self._once("source", lambda: _source_run(rig))

    def _optimistic(self, rig: Rig) -> Run:
        return self._once("optimistic", lambda: _optimistic_run(rig))

    def _sink(self, rig: Rig) -> Run:
        return self._once("sink", lambda: _sink_run(rig))

    @clause(
        "SRC-04", "order per key, also after a kill", needs="ordered-keys", sides=("replayable",)
    )
    def test_src_04_order_after_kill(self, rig: Rig) -> None:
        """A stream is killed in mid-batch and started again: the records of each key, batch after
        batch and by stamp within a batch, are in the order they were written."""
        run = self._source(rig)
        seen: dict[bytes, list[str]] = {}
        for attempt in (each for each in run.attempts if each.finished):
            rows = attempt.rows.to_pylist()
            ids = rig.ids(attempt.rows.to_batches())
            order = [
                (attempt.batch, _position(row), id, row["key"])
                for row, id in zip(rows, ids, strict=True)
            ]
            for _, _, id, key in sorted(order):
                seen.setdefault(key, []).append(id)
        wanted: dict[bytes, list[str]] = {}
        for record in run.records:
            wanted.setdefault(record.key, []).append(record.id)
        assert set(seen) == set(wanted), "keys are missing"
        for key, ids in wanted.items():
            assert seen[key] == ids, f"the records of {key!r} changed their order"

    @clause("SRC-11", "a replayed batch is the same batch")
    def test_src_11_replay(self, rig: Rig) -> None:
        """Planning and reading between two positions gives the same rows again; and when a driver
        is killed with SIGKILL in mid-batch, the replayed batch gives each task byte for byte what
        the killed one got. In the end every record was finished once."""
        run = self._source(rig)  # first: it may fill this very place, and counts what it finds
        if rig.case.expected is None:
            rig.filled(ROWS, rig.splits)
        first, second = rig.read_all(), rig.read_all()
        assert [r.to_pylist() for r in first] == [r.to_pylist() for r in second], "another read"
        proved(run.oracle.judge(run.ids))
        finished = {(a.batch, a.partition): a.rows for a in run.attempts if a.finished}
        torn = [each for each in run.attempts if not each.finished and each.rows.num_rows]
        assert torn, "the kill did not come in mid-batch: nothing is proved"
        for each in torn:
            whole = finished[each.batch, each.partition]
            again = whole.slice(0, each.rows.num_rows)
            assert again.to_pylist() == each.rows.to_pylist(), (
                f"batch {each.batch} was replayed otherwise"
            )

    @clause("QUE-01", "nothing is acknowledged before Spark has committed the batch")
    def test_que_01_optimistic(self, rig: Rig) -> None:
        """Optimistic delivery. The driver is killed when the sink has finished the first batch and
        Spark has not committed it: every message is still in the broker. Started again and run
        to its end, nothing is lost."""
        run = self._optimistic(rig)
        proved(run.oracle.judge(run.before))
        proved(run.oracle.judge(run.ids, duplicates=None))

    @clause("QUE-02", "nothing is acknowledged before the segment is on disk")
    def test_que_02_pessimistic(self, rig: Rig) -> None:
        """Pessimistic delivery. The driver is killed when messages are received and not yet on
        disk, and in its next life when a segment is on disk and not yet acknowledged: nothing is
        lost, nothing comes twice (ids are stated to be unique), the queue ends empty."""
        run = self._once("pessimistic", lambda: _pessimistic_run(rig))
        assert run.lives == 3, f"{run.lives} lives: the kills did not come"
        proved(run.oracle.judge(run.ids))
        assert run.left == [], f"{len(run.left)} messages were never acknowledged"

    @clause("QUE-04", "duplicates are bounded by what was in flight")
    def test_que_04_duplicates(self, rig: Rig) -> None:
        """Optimistic delivery repeats, after each kill, at most what may be unacknowledged at a
        time: twice the batch limit."""
        run = self._optimistic(rig)
        faults = run.lives - 1
        assert faults > 0, "nothing was killed"
        proved(run.oracle.judge(run.ids, duplicates=2 * LIMIT * faults))

    @clause("SNK-09", "a killed and replayed stream leaves each record as promised")
    def test_snk_09_killed(self, rig: Rig) -> None:
        """A stream into the sink is killed while tasks write, and once more when the sink has
        finished a batch that Spark has not committed. Nothing is lost; nothing is doubled where
        `exactly-once` is declared, else at most one batch per kill."""
        run = self._sink(rig)
        allowed = 0 if rig.has("exactly-once") else LIMIT * (run.lives - 1)
        proved(run.oracle.judge(run.ids, duplicates=allowed))

    @clause("SHP-06", "secrets stay out of plan, progress, logs, event log and checkpoint")
    def test_shp_06_secrets(self, rig: Rig) -> None:
        """After runs through Spark, from the source and into the sink, no file they left (the
        driver's output with plan and progress, the event log, checkpoint, state) holds the value
        of a secret option. What takes secrets must set one in its case."""
        hidden = secrets(rig)
        if not hidden:
            assert not _takes_secrets(rig) or named(os.environ), (
                "it takes secrets: the case must set one that no other option says openly"
            )
            pytest.skip("SHP-06: no secret is set in this case")
        runs = [self._sink(rig)] if rig.connector.sink is not None else []
        if rig.shape:
            runs.append(self._optimistic(rig) if rig.shape == "queue" else self._source(rig))
        for run in runs:
            searched = {file: file.read_bytes() for file in run.folder.rglob("*") if file.is_file()}
            events = [content for file, content in searched.items() if "events" in file.parts]
            assert any(b"SparkListener" in each for each in events), "no event log to search"
            assert b"== Physical Plan ==" in searched[run.folder / "driver.log"], (
                "no plan to search"
            )
            for file, content in searched.items():
                shown = any(secret.encode() in content for secret in hidden)
                assert not shown, f"{run.folder.name}/{file.relative_to(run.folder)} shows it"


def _takes_secrets(rig: Rig) -> bool:
    both = (rig.connector.source, rig.connector.sink)
    return any(spec.secret for side in both if side is not None for spec in specs(side))


def secrets(rig: Rig) -> list[str]:
    """The secrets in use, but for those that are also said openly (a password like its user)."""
    hidden: set[str] = set()
    open_ones: set[str] = set()
    for side in ("source", "sink"):
        cls = getattr(rig.connector, side)
        if cls is None:
            continue
        value = getattr(rig, side)()
        for spec in specs(cls):
            now = getattr(value, spec.name)
            for each in list(now.values()) if isinstance(now, dict) else [now]:
                if isinstance(each, Secret):
                    hidden.add(each.reveal())
                elif isinstance(each, str):
                    open_ones.add(each)
    return sorted(secret for secret in hidden - open_ones if len(secret) >= 4)


def _position(row: dict[str, Any]) -> int:
    stamp = row.get("stamp") or row["_pen"]["stamp"]
    position: int = stamp["position"]
    return position


def _driver(rig: Rig, name: str, spec: dict[str, Any], strikes: list[str]) -> tuple[Driver, Path]:
    folder = rig.folder / name
    folder.mkdir()
    spec = {**spec, "checkpoint": str(folder / "checkpoint"), "events": str(folder / "events")}
    driver = Driver(
        [sys.executable, "-m", "penstock.conformance.driver"],
        folder=folder,
        strikes=strikes,
        env={SPEC: json.dumps(spec)},
        standby=True,
    )
    return driver, folder


def _under_test(rig: Rig, side: str, name: str, **more: Any) -> dict[str, Any]:
    options = {**rig.strings(side), **{key: str(value) for key, value in more.items()}}
    options["connector"] = where(rig)
    options["state"] = str(rig.folder / name / "state")
    return {"format": "penstock.under-test", "options": options}


def _ledger(rig: Rig, name: str) -> tuple[Path, dict[str, Any]]:
    path = rig.folder / name / "ledger"
    return path, {"format": "penstock.ledger", "options": {"path": str(path)}}


def _ids(rig: Rig, found: list[Attempt]) -> list[str]:
    return [id for each in found if each.finished for id in rig.ids(each.rows.to_batches())]


def _source_run(rig: Rig) -> Run:
    if rig.case.expected is not None:
        oracle, [records] = rig.filled(0)
    else:
        oracle = rig.oracle(rig.few(ROWS))
        records = made(oracle)
        for split in range(rig.splits):
            # By key, as a producer that wants order per key would.
            rig.fill([r for n, r in enumerate(records) if n % KEYS % rig.splits == split], split)
    path, ledger = _ledger(rig, "source")
    limit = max(len(records) // 3, rig.case.step)
    read = _under_test(rig, "source", "source", max_rows=limit)
    strikes = ["ledger-write@9"] if len(records) >= ROWS else ["ledger-write@2"]
    driver, folder = _driver(rig, "source", {"read": read, "write": ledger}, strikes)
    driver.finish(within=LIFE)
    found = attempts(path)
    return Run(oracle, list(records), folder, driver.lives, _ids(rig, found), [], [], found)


def _optimistic_run(rig: Rig) -> Run:
    """Killed before a commit, after it and before the acknowledgement, and when idle."""
    oracle, [records] = rig.filled(ROWS)
    path, ledger = _ledger(rig, "optimistic")
    checkpoint = rig.folder / "optimistic" / "checkpoint"
    read = _under_test(
        rig, "source", "optimistic", max_rows=LIMIT, checkpoint=checkpoint, quiet=rig.case.quiet
    )
    spec = {"read": read, "write": ledger, "endless": True}
    strikes = ["ledger-finished@1", "before-ack@1"]
    driver, folder = _driver(rig, "optimistic", spec, strikes)
    before: list[str] = []
    try:
        for strike in strikes:
            driver.start().wait(LIFE)
            assert driver.struck(), f"{strike} was not struck:\n{driver.log_tail()}"
            driver.kill()
            before = before or _given_back(rig, oracle)
        assert len(driver.struck()) == len(strikes), f"struck only {driver.struck()}"
        driver.start()
        until(
            lambda: set(_ids(rig, attempts(path))) >= set(oracle.ids) or not driver.running,
            within=LIFE,
            why="every message is in a finished batch",
            every=0.2,
        )
        assert driver.running, f"the stream ended by itself:\n{driver.log_tail()}"
        quiet(driver.counts, seconds=IDLE, within=LIFE, why="the stream is idle")
    finally:
        driver.end()
    found = attempts(path)
    left = _left(rig)
    return Run(oracle, records, folder, driver.lives, _ids(rig, found), left, before, found)


def _given_back(rig: Rig, oracle: Oracle) -> list[str]:
    """What waits in the broker, once it has noticed that its consumer is dead."""
    deadline = time.monotonic() + NOTICED
    while True:
        found = rig.waiting()
        if set(found) >= set(oracle.ids) or time.monotonic() > deadline:
            return found


def _left(rig: Rig) -> list[str]:
    """The same where nothing should wait: what a dead consumer held may come late."""
    why = "what is left in the broker stays the same"
    left: list[str] = quiet(rig.waiting, seconds=IDLE, within=LIFE, why=why)  # type: ignore[assignment]
    return left


def _pessimistic_run(rig: Rig) -> Run:
    oracle, [records] = rig.filled(ROWS)
    path, ledger = _ledger(rig, "pessimistic")
    read = _under_test(
        rig,
        "source",
        "pessimistic",
        max_rows=LIMIT,
        checkpoint=rig.folder / "pessimistic" / "checkpoint",
        delivery="pessimistic",
        unique_ids="true",
        quiet=rig.case.quiet,
    )
    strikes = ["segment-received@1", "segment-written@1"]
    driver, folder = _driver(rig, "pessimistic", {"read": read, "write": ledger}, strikes)
    driver.finish(within=LIFE)
    found = attempts(path)
    left = _left(rig)
    return Run(oracle, records, folder, driver.lives, _ids(rig, found), left, [], found)


def _sink_run(rig: Rig) -> Run:
    oracle = rig.oracle(3 * LIMIT)
    records = made(oracle)
    place = rig.folder / "segments"
    place.mkdir()
    for split in range(2):
        append(place, str(split), envelopes(records[split::2]))
    read = {
        "format": "penstock.under-test",
        "options": {"connector": FOLDER, "path": str(place), "max_rows": str(LIMIT)},
    }
    write = _under_test(rig, "sink", "sink")
    strikes = ["mid-write@3", "sink-finished@2"]
    driver, folder = _driver(rig, "sink", {"read": read, "write": write}, strikes)
    driver.finish(within=LIFE)
    return Run(oracle, records, folder, driver.lives, rig.stored(), [], [], [])
