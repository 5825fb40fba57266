"""Clauses of a sink, call by call."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
from attrs import evolve

from penstock.conformance.clauses import clause
from penstock.conformance.leaks import held
from penstock.conformance.oracle import Oracle
from penstock.conformance.records import Record, envelopes, made, values_of
from penstock.conformance.rig import Rig, proved
from penstock.conformance.waiting import until
from penstock.contracts import QueueSource, Receipt
from penstock.contracts.envelope import column as column_of
from penstock.contracts.envelope import spark_form
from penstock.contracts.errors import EphemeralError, SchemaError, WriteError

ROWS = 120


class SinkClauses:
    """SNK: writing, once, all of it, or nothing."""

    @clause("SNK-01", "the same batch twice is a no-op", needs="exactly-once")
    def test_snk_01_replay(self, rig: Rig) -> None:
        """A batch that was finished and comes again (same query, node, number, layout) changes
        nothing, whether `done` says so or `finish` bears it. The promise is `idempotent`."""
        assert rig.sink().promise().replay == "idempotent"
        oracle, shares = _shares(rig)
        rig.write(shares, number=3)
        proved(rig.found(oracle))
        rig.write(shares, number=3)
        proved(rig.found(oracle))
        sink, batch = rig.sink(), rig.batch(3, partitions=len(shares))
        if not sink.done(batch):
            receipts = [rig.share(batch, p, rows, attempt=1) for p, rows in shares.items()]
            sink.finish(batch, receipts)
            sink.finish(batch, receipts)
        proved(rig.found(oracle))

    @clause("SNK-02", "all that was written is there, once")
    def test_snk_02_all(self, rig: Rig) -> None:
        """After `finish`, the place holds every record of every task's share, over several
        batches, each once. Other queries and other numbers are other batches."""
        for number, query in ((0, "a"), (1, "a"), (0, "b")):
            oracle, shares = _shares(rig)
            rig.write(shares, number=number, query=query)
            proved(rig.found(oracle, among=True))
        ids = rig.stored()
        assert len(ids) == 3 * ROWS, f"{len(ids)} records are there, {3 * ROWS} were written"

    @clause("SNK-03", "a failed task leaves no residue")
    def test_snk_03_failed_task(self, rig: Rig) -> None:
        """A task that aborts half-way, and is done again by another attempt, leaves only what
        that attempt wrote. A sink that shows single records at once (`record`) and appends may
        show what the first attempt sent; nothing else is excused."""
        oracle, shares = _shares(rig)
        sink, batch = rig.sink(), rig.batch(partitions=len(shares))
        sink.begin(batch)
        writer, schema = rig.opened(batch, 0, shares[0][0].schema)
        writer.write(shares[0][0].slice(0, 10).select(schema.names).cast(schema))
        writer.abort()
        receipts = [rig.share(batch, p, rows, attempt=1) for p, rows in shares.items()]
        sink.finish(batch, receipts)
        proved(rig.found(oracle, duplicates=10 if _shows_records(rig) else 0))

    @clause("SNK-04", "a duplicate task does no harm")
    def test_snk_04_speculation(self, rig: Rig) -> None:
        """Two attempts at one share run at the same time, as under speculation; one receipt is
        used. The share is there once (twice is excused where the promise is `append`); the attempt
        that lost may get a `WriteError`."""
        oracle, shares = _shares(rig)
        sink, batch = rig.sink(), rig.batch(partitions=len(shares))
        sink.begin(batch)
        first, schema = rig.opened(batch, 0, shares[0][0].schema, attempt=0)
        second, _ = rig.opened(batch, 0, shares[0][0].schema, attempt=1)
        for rows in shares[0]:
            second.write(rows.select(schema.names).cast(schema))
            with suppress(WriteError):  # a sink may fence the older attempt
                first.write(rows.select(schema.names).cast(schema))
        winner = second.close()
        with suppress(WriteError):
            first.close()
        receipts = [rig.share(batch, p, rows) for p, rows in shares.items() if p != 0]
        sink.finish(batch, [_at(winner, 0), *receipts])
        proved(rig.found(oracle, duplicates=ROWS if _appends_at_once(rig) else 0))

    @clause("SNK-05", "a discarded batch leaves nothing, or nothing that its replay would double")
    def test_snk_05_discard(self, rig: Rig) -> None:
        """Tasks closed, then the batch failed and `discard` was called. Atomic by `batch`: nothing
        of it is to be seen. Otherwise a task's share may be there already, and the same batch
        done again leaves each record once where `exactly-once` is declared, else at most twice."""
        oracle, shares = _shares(rig)
        sink, batch = rig.sink(), rig.batch(partitions=len(shares))
        sink.begin(batch)
        receipts = [rig.share(batch, p, rows) for p, rows in shares.items()]
        sink.discard(batch, receipts)
        if sink.promise().atomic == "batch":
            assert rig.stored() == [], "rows of a discarded batch can be seen"
        rig.write(shares)
        proved(rig.found(oracle, duplicates=0 if rig.has("exactly-once") else ROWS))

    @clause("SNK-06", "a zombie is fenced", needs="exactly-once")
    def test_snk_06_zombie(self, rig: Rig) -> None:
        """A task of a dead driver wakes up after the batch was done again and finished; it
        writes on, closes, and its driver even finishes: the place holds each record once. The
        zombie may get an error instead."""
        oracle, shares = _shares(rig)
        sink, batch = rig.sink(), rig.batch(partitions=len(shares))
        sink.begin(batch)
        zombie, schema = rig.opened(batch, 0, shares[0][0].schema, attempt=0)
        rows = shares[0][0].select(schema.names).cast(schema)
        zombie.write(rows.slice(0, 5))
        rig.write(shares)
        # Whatever it raises, it is the zombie that learns of it; the place is what counts.
        with suppress(Exception):
            zombie.write(rows.slice(5))
            late = zombie.close()
            sink.finish(batch, [_at(late, 0)])
        proved(rig.found(oracle))

    @clause("SNK-07", "round trip of values: Unicode, nulls, emptiness")
    def test_snk_07_values(self, rig: Rig) -> None:
        """Values come back byte for byte: Unicode, long ones, empty ones; and rows whose optional
        columns are all null are taken, not dropped. A null value comes back as null or empty, or
        its row is refused with a `WriteError` or in the receipt: it is not lost silently."""
        oracle = rig.oracle(ROWS)
        records = [
            Record(r.id, r.key, r.value + "Ωß𝄞 ".encode() * (n % 40), r.headers, r.event_time)
            for n, r in enumerate(made(oracle))
        ]
        bare = envelopes(records).to_pylist()
        for row in bare[::3]:
            row.update(key=None, headers=None, event_time=None, id=None)
        rig.write({0: [pa.RecordBatch.from_pylist(bare, schema=envelopes([]).schema)]})
        proved(rig.found(oracle))
        if rig.case.read_back is not None or rig.case.identify is None:
            assert sorted(_values(rig)) == sorted(r.value for r in records)
            _must_hold_blanks(rig, records[:3], len(records))

    @clause("SNK-08", "a writer's memory is bounded")
    def test_snk_08_memory(self, rig: Rig) -> None:
        """A share of 48 MiB is written in pieces without piling up: what a writer holds stays
        below 32 MiB."""
        oracle = rig.oracle(48 * 128)
        sink, batch = rig.sink(), rig.batch(partitions=1)
        sink.begin(batch)
        piece = envelopes(made(oracle, 8192)[:128])
        writer, schema = rig.opened(batch, 0, piece.schema)
        records = made(oracle, 8192)
        before = pa.total_allocated_bytes()
        for first in range(0, len(records), 128):
            piece = envelopes(records[first : first + 128])
            writer.write(piece.select(schema.names).cast(schema))
            del piece
            kept = pa.total_allocated_bytes() - before
            assert kept < 32 * 2**20, f"the writer holds {kept} bytes"
        receipt = writer.close()
        assert receipt.rows == len(records), f"{receipt.rows} rows in the receipt"
        sink.finish(batch, [_at(receipt, 0)])
        if not rig.has("exactly-once") or rig.case.read_back is not None:
            return
        if not issubclass(rig.connector.source or QueueSource, QueueSource):
            proved(rig.found(oracle))

    @clause("SNK-10", "rows it cannot take are refused at analysis")
    def test_snk_10_accepts(self, rig: Rig) -> None:
        """`accepts` is pure: asked twice it answers the same, in types Spark has; and rows of a
        type that Spark has not raise a `SchemaError`, or are taken as a type that it has: never
        as they are, to fail later. (`spark_form` of the contracts does either.)"""
        sink, schema = rig.sink(), envelopes([]).schema
        again = sink.accepts(schema)
        assert sink.accepts(schema).equals(again), "asked twice it answers otherwise"
        missing = [f.name for f in sink.accepts(schema) if f.name not in schema.names]
        assert not missing, f"it wants columns that are not there: {missing}"
        spark_form(sink.accepts(schema))
        for name in ("value", "x"):
            odd = pa.schema([pa.field(name, pa.duration("s"))])
            try:
                taken = sink.accepts(odd)
            except SchemaError:
                continue
            try:
                spark_form(taken)
            except SchemaError as error:
                raise AssertionError(f"it takes what Spark does not have: {taken}") from error

    @clause("SNK-11", "what is visible when is as promised")
    def test_snk_11_atomic(self, rig: Rig) -> None:
        """With `batch`, nothing is to be seen before `finish`; with `task`, nothing of a share
        before its task has closed; with `record`, nothing is promised. In the end all is there."""
        atomic = rig.sink().promise().atomic
        oracle, shares = _shares(rig)
        sink, batch = rig.sink(), rig.batch(partitions=len(shares))
        sink.begin(batch)
        writer, schema = rig.opened(batch, 0, shares[0][0].schema)
        for rows in shares[0]:
            writer.write(rows.select(schema.names).cast(schema))
        if atomic in ("task", "batch"):
            assert rig.stored() == [], "rows of an open task can be seen"
        receipts = [_at(writer.close(), 0)]
        receipts += [rig.share(batch, p, rows) for p, rows in shares.items() if p != 0]
        if atomic == "batch":
            assert rig.stored() == [], "rows of an unfinished batch can be seen"
        sink.finish(batch, receipts)
        proved(rig.found(oracle))

    @clause("SNK-12", "closing and aborting free what was opened")
    def test_snk_12_leaks(self, rig: Rig) -> None:
        """After `close` or `abort` no thread, socket, file or child process of the writer is
        left."""
        _, shares = _shares(rig)
        rig.write(shares)  # clients cached per process may stay: they are opened here
        with held(rig.case.patience):
            batch = rig.batch(7, partitions=len(shares))
            rig.sink().begin(batch)
            rig.share(batch, 0, shares[0])
            writer, schema = rig.opened(batch, 1, shares[0][0].schema)
            writer.write(shares[0][0].select(schema.names).cast(schema))
            writer.abort()
            rig.sink().discard(batch, [])

    @clause("SNK-13", "empty shares and empty batches are fine")
    def test_snk_13_empty(self, rig: Rig) -> None:
        """A task without rows, and a batch without tasks, finish and leave nothing behind that
        would count as a record; the next batch is written as ever."""
        none = envelopes([])
        rig.write({0: [none], 1: [none]}, number=0)
        sink, batch = rig.sink(), rig.batch(1, partitions=0)
        if not sink.begin(batch):
            sink.finish(batch, [])
        oracle, shares = _shares(rig)
        rig.write({**shares, len(shares): [none]}, number=2)
        proved(rig.found(oracle))

    @clause("SNK-14", "receipts count what was written")
    def test_snk_14_receipts(self, rig: Rig) -> None:
        """A receipt's `rows` is the number of rows of its share, and its payload survives JSON:
        the core counts and stores by it."""
        _, shares = _shares(rig)
        sink, batch = rig.sink(), rig.batch(partitions=len(shares))
        sink.begin(batch)
        receipts = [rig.share(batch, p, rows) for p, rows in shares.items()]
        for receipt, rows in zip(receipts, shares.values(), strict=True):
            assert receipt.rows == sum(each.num_rows for each in rows)
            assert json.loads(json.dumps(receipt.payload)) == receipt.payload
        sink.finish(batch, receipts)

    @clause("SNK-15", "keys reach the place", needs="keys", sides=("sink",))
    def test_snk_15_keys(self, rig: Rig) -> None:
        """Where the connector can also be read, a record comes back with the key it was written
        with."""
        _same(rig, "key", lambda record: record.key)

    @clause("SNK-16", "headers reach the place", needs="headers", sides=("sink",))
    def test_snk_16_headers(self, rig: Rig) -> None:
        """Where the connector can also be read, a record comes back with the headers it was
        written with, in order; what a broker adds on delivery comes after them."""
        _same(
            rig,
            "headers",
            lambda record: [{"key": name, "value": value} for name, value in record.headers],
            among=len(made(rig.oracle(1))[0].headers),
        )

    @clause("SNK-18", "a lost server is an ephemeral error", needs="reconnects")
    def test_snk_18_reconnect(self, rig: Rig) -> None:
        """While the server is away, writing a batch raises an `EphemeralError`, so that the
        core tries again; when it is back the same batch can be written, and is there as
        promised."""
        server = rig.case.server
        assert server is not None, "reconnects is declared: the case must give server="
        oracle, shares = _shares(rig)
        server.kill()
        try:
            rig.write(shares)
        except EphemeralError:
            pass
        else:
            raise AssertionError("a batch was written to a server that is away")
        finally:
            server.start()
        until(
            lambda: rig.write(shares) or True,
            within=rig.case.patience,
            why="the sink has found its server again",
            ignoring=(EphemeralError,),
        )
        proved(rig.found(oracle, duplicates=0 if rig.has("exactly-once") else ROWS))


def _shares(rig: Rig) -> tuple[Oracle, dict[int, list[pa.RecordBatch]]]:
    """Fresh records as two tasks' shares of two batches of rows each."""
    oracle = rig.oracle(ROWS)
    records = made(oracle)
    half, quarter = ROWS // 2, ROWS // 4
    return oracle, {
        0: [envelopes(records[:quarter]), envelopes(records[quarter:half])],
        1: [envelopes(records[half:])],
    }


def _must_hold_blanks(rig: Rig, records: list[Record], before: int) -> None:
    """Two empty values and a null one, beside one that is neither."""
    rows = envelopes([*records, records[0]]).to_pylist()
    for row, value in zip(rows, (b"", b"", None), strict=False):
        row["value"] = value
    blank = pa.RecordBatch.from_pylist(rows, schema=envelopes([]).schema)
    refused = 0
    for number, share in ((1, blank.slice(0, 2)), (2, blank.slice(2, 1)), (3, blank.slice(3))):
        batch = rig.batch(number, partitions=1)
        rig.sink().begin(batch)
        try:
            receipt = rig.share(batch, 0, [share])
        except WriteError:
            assert number == 2, "an empty value was refused"
            refused = 1
            continue
        refused += number == 2 and len(receipt.rejected)
        rig.sink().finish(batch, [receipt])
    until(
        lambda: len(_values(rig)) == before + 4 - refused,
        within=rig.case.patience,
        why=f"{2 + 1 - refused} rows without a value are there",
    )
    assert sum(not value for value in _values(rig)) == 3 - refused, "values are not empty any more"


def _at(receipt: Receipt, partition: int) -> Receipt:
    return evolve(receipt, partition=partition)


def _shows_records(rig: Rig) -> bool:
    promise = rig.sink().promise()
    return promise.atomic == "record" and promise.replay == "append"


def _appends_at_once(rig: Rig) -> bool:
    """A second copy is out before `finish` could choose between them."""
    promise = rig.sink().promise()
    return promise.replay == "append" and promise.atomic in ("record", "task")


def _values(rig: Rig) -> list[bytes]:
    if rig.case.read_back is not None:
        return list(rig.case.read_back())
    if issubclass(rig.connector.source or QueueSource, QueueSource):
        return values_of([lease.rows for lease in rig.peek()])
    return values_of(rig.read_all())


def _same(
    rig: Rig, column: str, wanted: Callable[[Record], object], among: int | None = None
) -> None:
    """Whether a column comes back as it was written; `among` looks at so many elements only."""
    if rig.connector.source is None:
        raise AssertionError(f"{column} is declared, but nothing can read it back: add a source")
    oracle = rig.oracle(ROWS)
    records = made(oracle)
    rig.write({0: [envelopes(records)]})
    proved(rig.found(oracle))
    if issubclass(rig.connector.source, QueueSource):
        batches = [lease.rows for lease in rig.peek()]
    else:
        batches = rig.read_all()
    found: dict[str, object] = {}
    for rows in batches:
        there = column_of(rows, column)
        assert there is not None, f"rows have no {column}"
        values = [v if among is None or v is None else v[:among] for v in there.to_pylist()]
        found.update(zip(rig.ids([rows]), values, strict=True))
    assert found == {record.id: wanted(record) for record in records}
