"""Clauses of a queue source, call by call. What needs a driver that dies is in `killed`."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.conformance.clauses import clause
from penstock.conformance.leaks import held
from penstock.conformance.looking import elsewhere
from penstock.conformance.records import made
from penstock.conformance.rig import Rig, proved
from penstock.contracts import ENVELOPE, Consumer, Lease, Limit
from penstock.contracts.errors import EphemeralReadError, ReadError

ROWS = 120


class QueueClauses:
    """QUE: reading what is gone once it is acknowledged."""

    @clause("QUE-05", "a stale lease acknowledges nothing")
    def test_que_05_stale(self, rig: Rig) -> None:
        """A lease whose consumer was closed belongs to nobody: `acknowledge` raises an
        `EphemeralReadError`, never travels over another connection, and every message comes
        again."""
        oracle, _ = rig.filled(ROWS)
        with rig.consumer() as consumer:
            lease = _received(rig, consumer)
        with rig.consumer() as other:
            again = _received(rig, other)
            try:
                lease.acknowledge()
            except EphemeralReadError:
                pass
            else:
                raise AssertionError("a stale lease could be acknowledged")
            assert again.rows.num_rows > 0
        proved(oracle.judge(_left(rig)))

    @clause("QUE-06", "release returns messages")
    def test_que_06_release(self, rig: Rig) -> None:
        """Released messages can be received again at once, by the same or another consumer, and
        by one of them only."""
        oracle, _ = rig.filled(ROWS)
        with rig.consumer() as consumer, rig.consumer(1) as other:
            seen: list[str] = []
            released = 0
            deadline = time.monotonic() + rig.case.patience
            while set(seen) != set(oracle.ids) and time.monotonic() < deadline:
                for each in (consumer, other):
                    lease = each.receive(Limit(rows=rig.case.at_once), wait=0.2)
                    if lease is None:
                        continue
                    if each is consumer and not released:
                        released = lease.rows.num_rows
                        lease.release()
                    else:
                        seen += rig.ids([lease.rows])
                        lease.acknowledge()
        assert released, "nothing was received, nothing released"
        proved(oracle.judge(seen))
        assert _left(rig) == [], "messages that were acknowledged came again"

    @clause("QUE-07", "a redelivered message says so")
    def test_que_07_redelivered(self, rig: Rig) -> None:
        """A message that comes again is marked `redelivered` (and counted in `deliveries` where
        the broker counts): that is how poison is known and cannot loop for ever. A fresh one is
        not marked."""
        rig.filled(10)
        with rig.consumer() as consumer:
            lease = _received(rig, consumer)
            assert not any(lease.redelivered.to_pylist()), "a fresh message is marked redelivered"
            first = set(rig.ids([lease.rows]))
            lease.release()
        with rig.consumer() as consumer:
            lease = _received(rig, consumer)
            flags = dict(zip(rig.ids([lease.rows]), lease.redelivered.to_pylist(), strict=True))
            assert first & set(flags), "nothing came again"
            assert all(flags[id] for id in first & set(flags)), "a redelivery is not marked"
            if lease.deliveries is not None:
                counts = lease.deliveries.to_pylist()
                assert max(counts) >= 2, f"delivered twice, counted {counts}"
            lease.release()

    @clause("QUE-08", "all is received, in order, within limits")
    def test_que_08_all(self, rig: Rig) -> None:
        """Receive and acknowledge until quiet: every message once, as envelopes, no lease above
        the limit; in the broker's order where the source says `ordered`."""
        oracle, _ = rig.filled(ROWS)
        ids: list[str] = []
        source = rig.queue()
        with rig.consumer() as consumer:
            last = time.monotonic()
            while time.monotonic() - last < rig.case.quiet:
                lease = consumer.receive(Limit(rows=17), wait=rig.case.quiet / 4)
                if lease is None:
                    continue
                assert 0 < lease.rows.num_rows <= 17, f"limit 17, received {lease.rows.num_rows}"
                assert lease.rows.schema.equals(ENVELOPE), f"no envelope: {lease.rows.schema}"
                assert len(lease.redelivered) == lease.rows.num_rows
                ids += rig.ids([lease.rows])
                lease.acknowledge()
                last = time.monotonic()
        proved(oracle.judge(ids))
        if source.ordered:
            assert ids == list(oracle.ids), "the messages came in another order than sent"

    @clause("QUE-09", "an empty queue returns in time")
    def test_que_09_empty(self, rig: Rig) -> None:
        """Nothing there: `receive` returns None after about `wait` seconds. `limit.rows == 0`
        takes no message even if there are some: it only serves heartbeats."""
        with rig.consumer() as consumer:
            began = time.monotonic()
            assert consumer.receive(Limit(rows=10), wait=0.5) is None, "an empty queue gave rows"
            took = time.monotonic() - began
            assert took < 0.5 + 5, f"asked to wait 0.5 s, took {took:.1f} s"
        oracle, _ = rig.filled(20)
        with rig.consumer() as consumer:
            nothing = consumer.receive(Limit(rows=0), wait=0.2)
            assert nothing is None, "limit.rows == 0 took messages"
        proved(oracle.judge(_left(rig)))

    @clause("QUE-10", "acknowledged is gone, unacknowledged comes back")
    def test_que_10_acknowledge(self, rig: Rig) -> None:
        """What was acknowledged never comes again; what was received and not acknowledged is
        back once the consumer is closed."""
        oracle, _ = rig.filled(ROWS)
        with rig.consumer() as consumer:
            lease = consumer.receive(Limit(rows=40), wait=10)
            assert lease is not None, "nothing came"
            gone = rig.ids([lease.rows])
            lease.acknowledge()
            kept = consumer.receive(Limit(rows=40), wait=10)
            assert kept is not None, "nothing came after the first lease"
        left = _left(rig)
        assert not set(gone) & set(left), "an acknowledged message came again"
        proved(oracle.judge(gone + left))

    @clause("QUE-11", "an acknowledgement covers no later lease")
    def test_que_11_leases(self, rig: Rig) -> None:
        """With several leases open, acknowledging the first keeps the later ones: they come back
        when the consumer is closed. A source with `leases = 1` hands out one at a time."""
        oracle, _ = rig.filled(ROWS)
        source = rig.queue()
        with rig.consumer() as consumer:
            first = consumer.receive(Limit(rows=30), wait=10)
            assert first is not None
            gone = rig.ids([first.rows])
            if source.leases != 1:
                second = consumer.receive(Limit(rows=30), wait=10)
                assert second is not None, "a second lease could not be had"
                assert not set(gone) & set(rig.ids([second.rows])), "two leases share messages"
                assert consumer.unacknowledged() in (0, first.rows.num_rows + second.rows.num_rows)
            first.acknowledge()
        left = _left(rig)
        proved(oracle.judge(gone + left))

    @clause("QUE-12", "the depth is true", needs="lag")
    def test_que_12_depth(self, rig: Rig) -> None:
        """`depth()` is the number of messages that wait, soon after they were sent; what the
        consumer has fetched ahead is counted by `unacknowledged()` instead, and with it all are
        there. When all are acknowledged, none waits."""
        rig.filled(ROWS)
        with rig.consumer() as consumer:
            _must_count(rig, consumer, ROWS)
            rig.take(consumer)
            _must_count(rig, consumer, 0)

    @clause("QUE-13", "closing frees threads, sockets and the broker's consumer")
    def test_que_13_leaks(self, rig: Rig) -> None:
        """After `close()` no thread, socket, file or child process is left, messages are free
        for others at once, and a second `close()` does no harm."""
        oracle, _ = rig.filled(ROWS)
        rig.queue().consumer(rig.ctx(), 0).close()
        with held(rig.case.patience):
            consumer = rig.queue().consumer(rig.ctx(), 0)
            assert _received(rig, consumer).rows.num_rows > 0
            consumer.close()
            consumer.close()
        proved(oracle.judge(_left(rig)))

    @clause("QUE-14", "a lost broker is found again", needs="reconnects")
    def test_que_14_reconnect(self, rig: Rig) -> None:
        """The broker is killed while a lease is open: `receive` and `acknowledge` raise an
        `EphemeralReadError`, a new consumer meanwhile too; when the broker is back a new consumer
        gets every message."""
        server = rig.case.server
        assert server is not None, "reconnects is declared: the case must give server="
        oracle, _ = rig.filled(ROWS)
        consumer = rig.queue().consumer(rig.ctx(), 0)
        try:
            lease = _received(rig, consumer)
            server.kill()
            patience = rig.case.patience
            _must_be_ephemeral(lease.acknowledge, "acknowledge", patience)
            _must_be_ephemeral(lambda: consumer.receive(Limit(rows=5), 0.2), "receive", patience)
            fresh = rig.queue()
            _must_be_ephemeral(lambda: fresh.consumer(rig.ctx(), 0), "a new consumer", patience)
        finally:
            server.start()
            consumer.close()
        proved(oracle.judge(_left(rig)))

    @clause(
        "QUE-15",
        "keys, headers, ids and times reach the envelope",
        tries=("keys", "headers", "event-time"),
    )
    def test_que_15_envelope(self, rig: Rig) -> None:
        """What the connector declares (`keys`, `headers`, `event-time`) arrives byte for byte,
        instants in UTC whatever the zone; every message has a stamp, and no two share one."""
        _, [records] = rig.filled(ROWS)
        wanted = {record.id: record for record in records}
        with elsewhere(), rig.consumer() as consumer:
            rows = [row for lease in rig.drain(consumer) for row in lease.rows.to_pylist()]
            ids = [(row["value"] or b"").split(b" ")[0].decode() for row in rows]
        assert rows, "nothing came"
        for id, row in zip(ids, rows, strict=True):
            sent = wanted[id]
            if rig.has("keys"):
                assert row["key"] == sent.key
            if rig.has("headers"):
                found = [(h["key"], h["value"]) for h in row["headers"]]
                assert set(sent.headers) <= set(found), f"sent {sent.headers}, got {found}"
            if rig.has("event-time"):
                late = abs((row["event_time"] - sent.event_time).total_seconds())
                assert late < 1, f"sent {sent.event_time}, got {row['event_time']}"
            assert row["stamp"] is not None, "a message has no stamp"
        stamps = {(s["origin"], s["part"], s["position"]) for s in (row["stamp"] for row in rows)}
        assert len(stamps) == len(rows), "two messages share a stamp"

    @clause("QUE-16", "news is seen by a waiting consumer", needs="live")
    def test_que_16_live(self, rig: Rig) -> None:
        """A message that is sent while a consumer waits reaches it."""
        with rig.consumer() as consumer:
            assert consumer.receive(Limit(rows=5), wait=0.1) is None
            oracle = rig.oracle(30)
            rig.fill(made(oracle))
            proved(oracle.judge(rig.take(consumer)))

    @clause(
        "QUE-19", "after a broker's crash only what was in doubt comes again", needs="reconnects"
    )
    def test_que_19_crash(self, rig: Rig) -> None:
        """Some messages are acknowledged, more are received, and the broker dies as in a power
        cut. When it is back every message that was not acknowledged comes; of those that were,
        at most the ones acknowledged just before may come once more."""
        server = rig.case.server
        assert server is not None, "reconnects is declared: the case must give server="
        oracle, _ = rig.filled(ROWS)
        consumer = rig.queue().consumer(rig.ctx(), 0)
        try:
            lease = consumer.receive(Limit(rows=ROWS // 3), wait=10)
            assert lease is not None, "nothing came"
            gone = rig.ids([lease.rows])
            lease.acknowledge()
            _received(rig, consumer)
            server.kill()
            server.start()
        finally:
            consumer.close()
        proved(oracle.judge(gone + _left(rig), duplicates=len(gone)))

    @clause("QUE-18", "byte limits are honoured", needs="limits-bytes")
    def test_que_18_bytes(self, rig: Rig) -> None:
        """Under a byte limit a lease holds about as much: never more than twice the limit and one
        message, never nothing while something waits; and all comes in the end."""
        oracle, _ = rig.filled(ROWS, size=1000)
        ids: list[str] = []
        with rig.consumer() as consumer:
            last = time.monotonic()
            while time.monotonic() - last < rig.case.quiet:
                lease = consumer.receive(Limit(rows=1000, bytes=10_000), rig.case.quiet / 4)
                if lease is None:
                    continue
                size = sum(len(value) for value in lease.rows.column("value").to_pylist())
                assert size <= 2 * 10_000 + 1000, f"limit 10000 bytes, a lease of {size}"
                ids += rig.ids([lease.rows])
                lease.acknowledge()
                last = time.monotonic()
        proved(oracle.judge(ids))


def _received(rig: Rig, consumer: Consumer) -> Lease:
    deadline = time.monotonic() + rig.case.patience
    while time.monotonic() < deadline:
        lease = consumer.receive(Limit(rows=rig.case.at_once), wait=1)
        if lease is not None:
            return lease
    raise AssertionError(f"nothing came within {rig.case.patience:g} s")


def _must_count(rig: Rig, consumer: Consumer, wanted: int) -> None:
    deadline = time.monotonic() + rig.case.patience
    while True:
        said, here = consumer.depth(), consumer.unacknowledged()
        assert said is not None, "lag is declared, but the depth is unknown"
        if said + here == wanted:
            return
        assert time.monotonic() < deadline, (
            f"{wanted} messages are there, the depth says {said} and {here} are unacknowledged"
        )
        consumer.receive(Limit(rows=0), wait=0.1)


def _left(rig: Rig) -> list[str]:
    """What is still in the queue, taken out of it."""
    with rig.consumer() as consumer:
        return rig.take(consumer)


def _must_be_ephemeral(call: Callable[[], object], what: str, within: float) -> None:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            call()
        except EphemeralReadError:
            return
        except ReadError as error:
            raise AssertionError(f"{what} raised {type(error).__name__}: not ephemeral") from error
    raise AssertionError(f"{what} did not notice within {within:g} s that the broker is gone")
