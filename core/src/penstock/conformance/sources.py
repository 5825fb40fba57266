"""Clauses of a replayable source, call by call."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.conformance.clauses import clause
from penstock.conformance.leaks import held
from penstock.conformance.looking import (
    column_of,
    elsewhere,
    mapped,
    stamped,
    through_json,
    values,
)
from penstock.conformance.records import KEYS, made
from penstock.conformance.rig import Rig, proved
from penstock.conformance.waiting import until
from penstock.contracts import Limit, Planner, Position
from penstock.contracts.envelope import spark_form
from penstock.contracts.errors import EphemeralReadError, ReadError

ROWS = 240
BIG = 16 * 2**20


class SourceClauses:
    """SRC: reading what can be read again."""

    @clause("SRC-01", "the schema is known before the first read, and true")
    def test_src_01_schema(self, rig: Rig) -> None:
        """`schema()` answers without data, in types that Spark has, and every batch that `read`
        yields has exactly that schema."""
        declared = rig.replayable().schema()
        assert len(declared) > 0, "the schema has no columns"
        assert declared.equals(spark_form(declared)), f"not as Spark wants it: {declared}"
        rig.filled(ROWS)
        batches = rig.read_all()
        assert batches, "nothing was read"
        for rows in batches:
            assert rows.schema.equals(declared), f"declared {declared}, read {rows.schema}"

    @clause("SRC-02", "a bounded read reads all, once")
    def test_src_02_all(self, rig: Rig) -> None:
        """Between `initial()` and `final()` lies every record that was there, each once. Counted
        by id: lost, unexpected and duplicated must all be zero."""
        oracle, _ = rig.filled(ROWS, rig.splits)
        proved(oracle.judge(rig.ids(rig.read_all())))

    @clause("SRC-03", "order within a split")
    def test_src_03_order(self, rig: Rig) -> None:
        """The records of one origin and part, put in the order of their stamps, are in the order
        they were written; and a task yields them in that order already."""
        _, shares = rig.filled(ROWS, rig.splits)
        source = rig.replayable()
        seen: dict[str, list[tuple[int, str]]] = {}
        with rig.planner(source) as planner:
            for part in planner.plan(planner.initial(), planner.final()):
                here: dict[str, list[int]] = {}
                for name, position, id in stamped(rig, rig.read([part], source)):
                    here.setdefault(name, []).append(position)
                    seen.setdefault(name, []).append((position, id))
                for name, positions in here.items():
                    assert positions == sorted(positions), f"{name} came out of order"
        assert seen, "nothing was read"
        assert any(len(records) > 1 for records in seen.values()), (
            "a part for each record: no order"
        )
        number = {r.id: at for share in shares for at, r in enumerate(share)}
        for name, records in seen.items():
            written = [number[id] for _, id in sorted(records)]
            assert written == sorted(written), f"the stamps of {name} give another order"

    @clause("SRC-05", "many splits are read by many tasks", needs="splits")
    def test_src_05_splits(self, rig: Rig) -> None:
        """With records in several splits, `plan` gives several parts, and together they hold
        each record once."""
        oracle, _ = rig.filled(ROWS, rig.splits)
        source = rig.replayable()
        with rig.planner(source) as planner:
            parts = planner.plan(planner.initial(), planner.final())
        assert len(parts) > 1, f"{rig.splits} splits gave {len(parts)} part"
        proved(oracle.judge(rig.ids(rig.read(parts, source))))

    @clause("SRC-06", "an idle split finishes", needs="splits")
    def test_src_06_idle_split(self, rig: Rig) -> None:
        """A split that gets nothing new while another does costs no wait: the batch is planned
        and read within seconds, and holds exactly what is new."""
        if rig.case.expected is not None:
            oracle, _ = rig.filled(0)
            every = rig.batches(Limit(rows=1))
            proved(oracle.judge(rig.ids([rows for _, _, batch in every for rows in batch])))
            return
        rig.filled(rig.splits * 10, rig.splits)
        done = rig.batches(Limit())[-1][1]
        fresh = rig.oracle(30)
        rig.fill(made(fresh), 0)
        began = time.monotonic()
        later = rig.batches(Limit(), start=done)
        assert time.monotonic() - began < 20, "an idle split kept the batch waiting"
        proved(fresh.judge(rig.ids([rows for _, _, batch in later for rows in batch])))

    @clause("SRC-07", "an empty read returns")
    def test_src_07_empty(self, rig: Rig) -> None:
        """Nothing there: `latest` returns its `after` unchanged, `plan` of equal positions gives
        no parts, and a bounded read ends with no rows."""
        source = rig.replayable()
        with rig.planner(source) as planner:
            start = planner.initial()
            assert planner.plan(start, start) == [], "equal positions gave parts"
            if rig.case.expected is None:
                assert planner.latest(start, Limit()) == start, "an empty place had news"
                assert rig.read(planner.plan(start, planner.final()), source) == []
            end = planner.final()
            assert planner.latest(end, Limit(), until=end) == end, "news beyond the end"

    @clause("SRC-08", "new data is seen while running", needs="live")
    def test_src_08_live(self, rig: Rig) -> None:
        """What is written after a planner was made is found by the same planner."""
        first, _ = rig.filled(ROWS // 2)
        source = rig.replayable()
        with rig.planner(source) as planner:
            start = planner.initial()
            end = planner.latest(start, Limit())
            proved(first.judge(rig.ids(rig.read(planner.plan(start, end), source))))
            second = rig.oracle(ROWS // 2)
            rig.fill(made(second))
            news = _news(rig, planner, end)
            proved(second.judge(rig.ids(rig.read(planner.plan(end, news), source))))

    @clause("SRC-09", "stamps are unique and rise")
    def test_src_09_stamps(self, rig: Rig) -> None:
        """Every record has a stamp; no two records share one; within an origin and part they
        rise from each record that a task yields to the next; reading again gives each record the
        same stamp."""
        rig.filled(ROWS, rig.splits)
        source = rig.replayable()
        with rig.planner(source) as planner:
            parts = planner.plan(planner.initial(), planner.final())
        shares = [stamped(rig, rig.read([part], source)) for part in parts]
        first, again = [row for share in shares for row in share], stamped(rig, rig.read_all())
        assert first, "nothing was read"
        for share in shares:
            last: dict[str, int] = {}
            for part, position, _ in share:
                assert position > last.get(part, -1), f"{part}: {position} after {last[part]}"
                last[part] = position
        names = [(part, position) for part, position, _ in first]
        assert len(set(names)) == len(names), "two records share a stamp"
        assert sorted(first) == sorted(again), "a record got another stamp when read again"

    @clause("SRC-10", "resumes from a position")
    def test_src_10_resume(self, rig: Rig) -> None:
        """A new planner, given the position where an old one stopped (through JSON, as Spark
        keeps it), goes on with the next record: nothing twice, nothing skipped."""
        oracle, _ = rig.filled(ROWS, rig.splits)
        limit = Limit(rows=max(ROWS // 4, rig.case.step))
        source = rig.replayable()
        with rig.planner(source) as planner:
            start = planner.initial()
            end = planner.latest(start, limit)
            ids = rig.ids(rig.read(planner.plan(start, end), source))
        assert ids, "the first batch held nothing"
        for _, _, batches in rig.batches(Limit(), start=through_json(end)):
            ids += rig.ids(batches)
        proved(oracle.judge(ids))

    @clause("SRC-12", "rescales on restart", needs="splits")
    def test_src_12_rescale(self, rig: Rig) -> None:
        """After a stop the place gets more splits; a planner that starts from the old position
        reads the old and the new ones, each record once."""
        if rig.case.expected is not None:
            # What makes its own records cannot be given more; it goes on with another limit.
            oracle, _ = rig.filled(0)
            [(_, at, begun), *_] = rig.batches(Limit(rows=7))
            rest = rig.batches(Limit(), start=through_json(at))
            ids = rig.ids([*begun, *(rows for _, _, batch in rest for rows in batch)])
            proved(oracle.judge(ids))
            return
        first, _ = rig.filled(40, 1)
        at = rig.batches(Limit())[-1][1]
        second = rig.oracle(ROWS)
        records = made(second)
        for split in range(rig.splits):
            rig.fill(records[split :: rig.splits], split)
        later = rig.batches(Limit(), start=through_json(at))
        proved(second.judge(rig.ids([rows for _, _, batch in later for rows in batch])))
        assert len(first.ids) == 40

    @clause("SRC-13", "a foreign, future or corrupt position is a typed error")
    def test_src_13_positions(self, rig: Rig) -> None:
        """A position of another source, one whose numbers lie beyond the end, and one whose
        values have the wrong type raise a `ReadError` (`PositionError`, `DataLossError`) that
        says so, as a batch's end, as its start, and as what `latest` goes on from: never another
        exception, never a silent start from somewhere."""
        rig.filled(ROWS, rig.splits)
        source = rig.replayable()
        with rig.planner(source) as planner:
            start, end = planner.initial(), planner.final()

            def batch(first: Position, last: Position) -> object:
                return rig.read(planner.plan(first, last), source)

            wrong = {
                "foreign": {"no-such-source": {"x": [1]}},
                "future": mapped(end, lambda n: n + 10**9 if isinstance(n, int) else n),
                "corrupt": mapped(end, lambda n: "\x00?" if isinstance(n, int) else [n]),
            }
            for kind, position in wrong.items():
                if position == end:
                    continue  # a position without numbers has no future to point to
                asked: dict[str, Callable[[], object]] = {
                    "end": partial(batch, start, position),
                    "start": partial(batch, position, end),
                    "after": partial(planner.latest, position, Limit()),
                }
                for place, ask in asked.items():
                    try:
                        given = ask()
                    except ReadError:
                        continue
                    raise AssertionError(f"a {kind} position was taken as {place}: {given}")

    @clause("SRC-14", "limits by rows are honoured")
    def test_src_14_rows(self, rig: Rig) -> None:
        """Under a row limit no batch holds more (or, if the smallest step is larger, more than
        that one step), and the batches together hold each record once."""
        oracle, _ = rig.filled(ROWS, rig.splits)
        limit = max(ROWS // 8, 2 * rig.case.step)
        batches = rig.batches(Limit(rows=limit))
        sizes = [sum(rows.num_rows for rows in batch) for _, _, batch in batches]
        assert max(sizes, default=0) <= limit, f"limit {limit}, batches of {sizes}"
        assert len(sizes) > 1, f"all in {len(sizes)} batch under a limit of {limit}"
        proved(oracle.judge(rig.ids([rows for _, _, batch in batches for rows in batch])))
        tiny = rig.batches(Limit(rows=1))
        assert all(
            sum(rows.num_rows for rows in batch) <= max(rig.case.step, 1) for _, _, batch in tiny
        ), "a limit below the smallest step took more than that step"

    @clause("SRC-15", "limits by bytes are honoured", needs="limits-bytes")
    def test_src_15_bytes(self, rig: Rig) -> None:
        """Under a byte limit a batch holds about as much: never more than twice the limit and one
        step, and never nothing while there is something."""
        oracle, shares = rig.filled(ROWS, rig.splits, size=2000)
        whole = sum(len(each.value) for share in shares for each in share)
        limit = max(whole // 8, 1)
        batches = rig.batches(Limit(bytes=limit))
        step = -(-whole // ROWS) * rig.case.step
        for _, _, batch in batches:
            size = sum(len(v or b"") for rows in batch for v in values(rows))
            assert size <= 2 * limit + step, f"limit {limit} bytes, a batch of {size}"
        assert len(batches) > 1, "a byte limit made no difference"
        proved(oracle.judge(rig.ids([rows for _, _, batch in batches for rows in batch])))

    @clause("SRC-16", "memory is bounded under a slow sink")
    def test_src_16_memory(self, rig: Rig) -> None:
        """A part far larger than a batch comes in several batches of at most 16 MiB, and reading
        does not run ahead: after the first batch most of the rest is not in memory yet."""
        size = 40 * 2**20
        if rig.case.expected is None:
            rig.filled(size // 8192, 1, size=8192)
        source = rig.replayable()
        before = pa.total_allocated_bytes()
        total = largest = count = 0
        with rig.planner(source) as planner:
            for part in planner.plan(planner.initial(), planner.final()):
                for rows in source.read(part):
                    total, count = total + rows.nbytes, count + 1
                    largest = max(largest, rows.nbytes)
                    ahead = pa.total_allocated_bytes() - before
                    assert ahead <= 2 * BIG, f"{ahead} bytes were held while reading"
        assert count > 0, "nothing was read"
        assert largest <= BIG, f"one batch held {largest} bytes"
        if rig.case.expected is None:
            assert total >= size, f"only {total} bytes of {size} were read"

    @clause("SRC-18", "event time is extracted, whatever the zone", needs="event-time")
    def test_src_18_event_time(self, rig: Rig) -> None:
        """`event_time` is the record's own instant in UTC, also when the process lives in a zone
        whose clocks have just been changed."""
        _, shares = rig.filled(ROWS)
        with elsewhere():
            batches = rig.read_all()
        wanted = {each.id: each.event_time for share in shares for each in share}
        found = dict(zip(rig.ids(batches), column_of(batches, "event_time"), strict=True))
        assert found, "nothing was read"
        wrong = [id for id, at in found.items() if at is None or at != wanted[id]]
        assert not wrong, f"{len(wrong)} event times differ, e.g. {found[wrong[0]]} for {wrong[0]}"

    @clause("SRC-19", "lag is reported and true", needs="lag")
    def test_src_19_lag(self, rig: Rig) -> None:
        """`lag` counts exactly what was not read: all of it at the start, the rest on the way,
        zero at the end."""
        oracle, _ = rig.filled(ROWS, rig.splits)
        batches = rig.batches(Limit(rows=max(ROWS // 4, rig.case.step)))
        whole = len(oracle.ids)
        with rig.planner() as planner:
            unit = sum(planner.lag(planner.initial()).values()) / whole
            assert unit > 0, "all is unread, and the lag says nothing is"
            assert unit in (1.0, 1 / rig.case.step), f"the lag of {whole} rows is {unit * whole}"
            left = whole
            for _, end, batch in batches:
                left -= sum(rows.num_rows for rows in batch)
                said = sum(planner.lag(end).values())
                assert said == round(left * unit), f"{left} rows are left, the lag says {said}"

    @clause("SRC-20", "a lost server is found again", needs="reconnects")
    def test_src_20_reconnect(self, rig: Rig) -> None:
        """While the server is away `latest` raises an `EphemeralReadError`, or says that there is
        nothing new; when it is back the same planner goes on within 30 seconds, and nothing is
        lost or doubled."""
        server = rig.case.server
        assert server is not None, "reconnects is declared: the case must give server="
        first, _ = rig.filled(ROWS // 2)
        source = rig.replayable()
        with rig.planner(source) as planner:
            start = planner.initial()
            end = planner.latest(start, Limit())
            proved(first.judge(rig.ids(rig.read(planner.plan(start, end), source))))
            server.kill()
            try:
                assert planner.latest(end, Limit()) == end, "news from a server that is away"
            except EphemeralReadError:
                pass
            finally:
                server.start()
            second = rig.oracle(ROWS // 2)
            rig.fill(made(second))
            news = _news(rig, planner, end)
            proved(second.judge(rig.ids(rig.read(planner.plan(end, news), source))))

    @clause("SRC-21", "closing frees threads, sockets and files")
    def test_src_21_leaks(self, rig: Rig) -> None:
        """After `close()`, and after a read that was given up half-way, no thread, socket, file
        or child process that they opened is left."""
        rig.filled(ROWS, rig.splits)
        rig.read_all()  # clients cached per process may stay: they are opened here
        with held(rig.case.patience):
            source = rig.replayable()
            with rig.planner(source) as planner:
                parts = planner.plan(planner.initial(), planner.final())
                assert parts, "nothing was planned"
                given_up: Any = iter(source.read(parts[0]))
                next(given_up)
                if hasattr(given_up, "close"):
                    given_up.close()
                del given_up

    @clause("SRC-22", "keys survive", needs="keys")
    def test_src_22_keys(self, rig: Rig) -> None:
        """Each record comes with the key it was sent with, byte for byte."""
        _, shares = rig.filled(ROWS)
        wanted = {each.id: each.key for share in shares for each in share}
        batches = rig.read_all()
        found = dict(zip(rig.ids(batches), column_of(batches, "key"), strict=True))
        assert found == wanted
        assert rig.case.expected is not None or len(set(found.values())) == KEYS

    @clause("SRC-23", "headers survive", needs="headers")
    def test_src_23_headers(self, rig: Rig) -> None:
        """Each record comes with its headers, in order, byte for byte, names in Unicode."""
        _, shares = rig.filled(ROWS)
        wanted = {each.id: list(each.headers) for share in shares for each in share}
        batches = rig.read_all()
        read = column_of(batches, "headers")
        found = {
            id: [(h["key"], h["value"]) for h in headers or []]
            for id, headers in zip(rig.ids(batches), read, strict=True)
        }
        assert found == wanted


def _news(rig: Rig, planner: Planner, end: Position) -> Position:
    """The next position past `end`, once the planner sees one."""

    def looked() -> Position | None:
        at = planner.latest(end, Limit())
        return None if at == end else at

    why = "the planner sees what is new"
    found = until(looked, within=rig.case.patience, why=why, ignoring=(EphemeralReadError,))
    assert found is not None
    return found
