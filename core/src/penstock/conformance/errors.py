"""Clauses about what goes wrong: what is raised, tried again, put aside, and sent once more."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from attrs import frozen

from penstock.conformance import piped
from penstock.conformance.clauses import clause
from penstock.conformance.killed import secrets
from penstock.conformance.once import Once
from penstock.conformance.oracle import Oracle, Verdict
from penstock.conformance.piped import CAUSE, CHECK, Other, declared, installed, refused, stays
from penstock.conformance.records import made, values_of
from penstock.conformance.rig import Rig, given, proved
from penstock.conformance.waiting import NotInTime, until
from penstock.contracts.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 120
AWAY = 2.0
"""Seconds without a server."""
LONG = 120.0
"""Seconds that a pipeline may take to do something on a busy machine."""
RETRIES = 10
"""With the usual doubling pauses, about a minute in all."""


@frozen
class Refused:
    """What a pipeline with a step that refuses some records left, before and after a replay."""

    side: str
    wanted: list[str]
    bad: dict[str, bytes]
    first: list[str]
    letters: pa.Table
    last: list[str]
    waiting: int
    counts: dict[str, int]


class ErrorClauses(Once):
    """ERR: who, expected, got, next step; and whether it is worth a retry."""

    @clause("ERR-01", "a server that is away is an ephemeral error, soon", needs="reconnects")
    def test_err_01_away(self, rig: Rig) -> None:
        """With the server killed, `check()` of source and sink raises a `PenstockError` within 30
        seconds; it is marked ephemeral, so that the core retries with backoff and a limit, and
        its text (the whole chain) repeats no secret. With the server back `check()` passes."""
        server = rig.case.server
        assert server is not None, "reconnects is declared: the case must give server="
        hidden = secrets(rig)
        server.kill()
        try:
            for side in piped.sides(rig):
                began = time.monotonic()
                error = _raised(getattr(rig, side)())
                took = time.monotonic() - began
                assert error is not None, f"{side}: check() passes without a server"
                assert took < 30, f"{side}: check() took {took:.0f} s"
                assert error.ephemeral, f"{side}: {type(error).__name__} is not ephemeral"
                text = "".join(traceback.format_exception(error))
                assert not [s for s in hidden if s in text], f"{side}: the error shows a secret"
        finally:
            server.start()
        for side in piped.sides(rig):
            getattr(rig, side)().check()

    @clause("ERR-02", "what is ephemeral is tried again", needs="reconnects")
    def test_err_02_retried(self, rig: Rig, penstock_spark: SparkSession) -> None:
        """A pipeline runs from the source, and one into the sink. The server is killed while they
        run, and comes back: they were never restarted, nobody repaired anything, and every record
        that was sent before and after arrives; once, where replay is exact, else at least once."""
        assert rig.case.server is not None, "reconnects is declared: the case must give server="
        for side in piped.sides(rig):
            with installed(rig) as name:
                _outlived(rig, side, name, penstock_spark)

    @clause("ERR-03", "what cannot pass is a dead letter, once, with its cause; the rest flows")
    def test_err_03_dead_letters(self, rig: Rig, penstock_spark: SparkSession) -> None:
        """A step of a pipeline refuses some records. Each of them becomes one dead letter that
        holds the original bytes, the stamp, the step and the cause; all others arrive, once; and
        the pipeline ends well."""
        for run in self._refused(rig, penstock_spark):
            assert run.bad, "no record was refused: nothing is proved"
            _same(run, run.first, set(run.wanted) - set(run.bad), "arrived")
            rows = run.letters.to_pylist()
            _same(run, _named(rig, run.letters), set(run.bad), "letters")
            if rig.case.identify is None:
                originals = sorted(letter["original"] for letter in rows)
                sent = sorted(run.bad.values())
                assert originals == sent, f"{run.side}: letters hold other bytes than were sent"
            for letter in rows:
                assert letter["node"] == CHECK, f"{run.side}: failed at {letter['node']}"
                assert CAUSE in letter["message"], f"{run.side}: the cause is {letter['message']}"
                stamp = letter["stamp"]
                assert stamp is not None, f"{run.side}: a letter without a stamp"
                assert stamp["position"] is not None, f"{run.side}: a stamp without a position"

    @clause("ERR-04", "dead letters replay")
    def test_err_04_replay(self, rig: Rig, penstock_spark: SparkSession) -> None:
        """The step is mended and the dead letters are sent again, from the step on: every record
        has arrived once, and no letter waits any more."""
        for run in self._refused(rig, penstock_spark):
            assert run.bad, "no record was refused: nothing is proved"
            assert run.counts == {"replayed": len(run.bad), "failed": 0}, f"{run.counts}"
            _same(run, run.last, set(run.wanted), "arrived in the end")
            assert run.waiting == 0, f"{run.side}: {run.waiting} letters still wait"

    def _refused(self, rig: Rig, spark: SparkSession) -> list[Refused]:
        def make() -> list[Refused]:
            with installed(rig) as name:
                return [_refused_run(rig, side, name, spark) for side in piped.sides(rig)]

        return self._once("refused", make)


def _outlived(rig: Rig, side: str, name: str, spark: SparkSession) -> None:
    server = rig.case.server
    assert server is not None
    other = Other(rig.folder / f"outlived-{side}")
    before = set(rig.stored()) if side == "sink" else set()
    first, second = rig.oracle(ROWS), rig.oracle(ROWS)
    fill = rig.fill if side == "source" else other.fill
    fill(made(first))
    checkpoint = rig.folder / f"outlived-{side}-checkpoint"
    flow = declared(rig, side, name, other).limits(max_wait=0.1).on_error(retries=RETRIES)
    handle = flow.run(checkpoint=checkpoint, spark=spark, wait=False)

    def arrived() -> list[str]:
        if side == "source":
            return rig.ids(other.batches())
        return [id for id in rig.stored() if id not in before]

    def judged(ids: list[str]) -> Verdict:
        exact = rig.has("exactly-once") if side == "sink" else rig.shape == "replayable"
        return given(ids).judge(arrived(), duplicates=0 if exact else len(ids))

    try:
        _until(handle, lambda: not judged(list(first.ids)).lost, rig, "the first records are there")
        server.kill()
        try:
            if side == "sink":
                fill(made(second))
            stays(handle, AWAY)
        finally:
            server.start()
        if side == "source":
            fill(made(second))
        both = [*first.ids, *second.ids]
        _until(handle, lambda: not judged(both).lost, rig, "all records are there")
        proved(judged(both))
    finally:
        if handle.running:
            handle.stop()


def _until(handle: object, condition: Callable[[], bool], rig: Rig, why: str) -> None:
    def asked() -> bool:
        stays(handle, 0)  # type: ignore[arg-type]
        return condition()

    until(asked, within=max(LONG, rig.case.patience), why=why, every=0.2, ignoring=(PenstockError,))


def _refused_run(rig: Rig, side: str, name: str, spark: SparkSession) -> Refused:
    from penstock.spark.checkpoint import Checkpoint
    from penstock.spark.deadletters import DeadLetters
    from penstock.spark.replay import replay

    other = Other(rig.folder / f"refused-{side}")
    before = set(rig.stored()) if side == "sink" else set()
    if side == "source":
        oracle, _ = rig.filled(ROWS)
    else:
        oracle = rig.oracle(ROWS)
        other.fill(made(oracle))
    checkpoint = rig.folder / f"refused-{side}-checkpoint"

    def arrived(count: int) -> list[str]:
        if side == "source":
            return rig.ids(other.batches())
        ids: list[str] = []

        def enough() -> bool:
            ids[:] = [id for id in rig.stored() if id not in before]
            return len(ids) >= count

        with suppress(NotInTime):  # the clauses say what is missing
            until(enough, within=rig.case.patience, why=f"{count} records are in the place")
        return ids

    flow = declared(rig, side, name, other, piped.check).on_error("dead-letter").bounded()
    flow.run(checkpoint=checkpoint, spark=spark)
    letters = DeadLetters(Checkpoint(str(checkpoint)).dead_letters)
    table = letters.table()
    wanted = list(oracle.ids)
    first = arrived(len(wanted) - table.num_rows)
    bad = _bad(rig, side, oracle)
    whole = declared(rig, side, name, other, piped.mended).on_error("dead-letter").bounded()
    counts = replay(whole.graph, Path(checkpoint), spark=spark)
    last = arrived(len(wanted))
    return Refused(side, wanted, bad, first, table, last, letters.table().num_rows, counts)


def _bad(rig: Rig, side: str, oracle: Oracle) -> dict[str, bytes]:
    """What must be refused, by id: worked out from what was sent, not from what came."""
    if rig.case.expected is None or side == "sink":
        sent = [(record.id, record.value) for record in made(oracle)]
    else:
        rows = rig.read_all()
        sent = list(zip(rig.ids(rows), values_of(rows), strict=True))
    return {id: value for id, value in sent if refused(value)}


def _named(rig: Rig, letters: pa.Table) -> list[str]:
    """The ids of dead letters: in their bytes, or as the case finds a record's own."""
    if rig.case.identify is None:
        return rig.ids(letters.select(["original"]).rename_columns(["value"]).to_batches())
    return [str(id) for id in letters["id"].to_pylist()]


def _same(run: Refused, found: list[str], wanted: set[str], what: str) -> None:
    verdict = given(sorted(wanted)).judge(found)
    assert verdict.ok, f"{run.side}, {what}: {verdict}"


def _raised(value: object) -> PenstockError | None:
    try:
        value.check()  # type: ignore[attr-defined]
    except PenstockError as error:
        return error
    return None
