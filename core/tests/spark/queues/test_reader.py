"""How long a batch of AvailableNow fills."""

import time

import pytest

from penstock.conformance.reference.socket_source import SocketConsumer, SocketSource
from penstock.contracts import Context, Limit
from penstock.contracts import connector as configured
from penstock.spark.queues import reader
from penstock.spark.queues.ledger import Ledger

from .rows import Given


class Pouring:
    """Rows that come with each pause, on a clock of their own."""

    def __init__(self, *coming):
        self.coming = list(coming)
        self.waiting = self.coming.pop(0)
        self.now = 0.0

    def ready(self):
        return self.waiting

    def monotonic(self):
        return self.now

    def pause(self):
        self.now += 0.05
        self.waiting += self.coming.pop(0) if self.coming else 0

    def filled(self, most, room=lambda: True):
        reader.fill(self.ready, lambda: self.waiting >= most or not room(), self.pause)
        return self.waiting, round(self.now, 2)


@pytest.fixture
def pouring(monkeypatch):
    def make(*coming):
        made = Pouring(*coming)
        monkeypatch.setattr("time.monotonic", made.monotonic)
        return made

    return make


def test_a_batch_fills_as_long_as_more_comes(pouring):
    assert pouring(10, 10, 10, 0, 0, 10, 60).filled(100) == (100, 0.3)


def test_it_does_not_wait_for_more_than_can_come(pouring):
    assert pouring(10, 10).filled(10) == (10, 0.0)
    assert pouring(0, 10).filled(10) == (0, 0.0)


def test_it_does_not_wait_while_nobody_may_take_more(pouring):
    assert pouring(10, 10).filled(100, room=lambda: False) == (10, 0.0)


def test_a_source_of_one_lease_has_no_room_beside_it(pouring):
    ledger = Ledger(1, Limit(rows=100, bytes=10**6), 1)
    ledger.add(0, Given(["a", "b"]))
    found = pouring(2, 10).filled(100, room=lambda: bool(ledger.room(0).rows))
    assert found == (2, 0.0)


def test_it_ends_when_nothing_came_for_a_while_or_it_lasts_too_long(pouring):
    waiting, took = pouring(10, 10).filled(100)
    assert (waiting, took) == (20, pytest.approx(0.05 + reader.FILL_PAUSE, abs=0.11))
    waiting, took = pouring(1, *[1] * 50).filled(100)
    assert took == pytest.approx(reader.FILL_WITHIN, abs=0.06)


def sparing(self, limit, wait, receive=SocketConsumer.receive):
    """As a client whose memory is bounded by the size of messages: four of them, however many fit."""
    rows = min(limit.rows, 4 - self.unacknowledged())
    return receive(self, Limit(rows=rows, bytes=limit.bytes), wait)


@pytest.mark.parametrize("delivery", ["optimistic", "pessimistic"])
def test_a_batch_that_is_full_by_its_size_waits_for_nothing(
    broker, query, tmp_path, monkeypatch, delivery
):
    monkeypatch.setattr(SocketConsumer, "receive", sparing)
    monkeypatch.setattr(reader, "FILL_WITHIN", 100.0)
    monkeypatch.setattr(reader, "FILL_PAUSE", 100.0)
    ids = [f"m{n}" for n in range(7)]
    broker.send(*ids, value=b"x" * 50_000)
    sizes = {"max_bytes": 110_000, "max_spool": 150_000}
    asked = query(delivery=delivery, state=str(tmp_path / "state"), **sizes)
    asked.reader.prepareForTriggerAvailableNow()
    began, seen = time.monotonic(), []
    while asked.plan():
        seen += asked.rows()
        asked.commit()
    assert seen == ids
    assert asked.batch > 1
    assert time.monotonic() - began < 50


@configured
class Counting(SocketSource):
    """Counts as in the queue what other consumers hold, as Artemis does."""

    def consumer(self, ctx, receiver):
        made = super().consumer(ctx, receiver)
        made.depth = lambda: 2 + SocketConsumer.depth(made)
        return made


def test_messages_that_another_consumer_holds_hold_up_no_end(broker, query, monkeypatch, caplog):
    monkeypatch.setattr(reader, "WITHHELD_AFTER", 3.0)
    ids = [f"m{n}" for n in range(5)]
    broker.send(*ids)
    other = SocketSource(port=broker.port).consumer(Context(), 0)
    held = other.receive(Limit(rows=2), 5.0)
    asked = query(source=Counting(port=broker.port), delivery="optimistic")
    asked.reader.prepareForTriggerAvailableNow()
    seen = []
    while asked.plan():
        seen += asked.rows()
        asked.commit()
    assert seen == ids[2:]
    assert "another consumer may hold them" in caplog.text
    held.release()
    other.close()


def test_it_is_quiet_when_nothing_comes_and_the_broker_is_there_and_has_none(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    quiet = reader.Quiet(2.0)

    def over(at, *told):
        now[0] = at
        return quiet.over(*told)

    assert not over(3.0, 1, True, 0)
    assert not over(10.0, 1, False, 0)
    assert not over(13.0, 1, True, 5)
    assert not over(14.0, 1, True, 0)
    assert over(16.0, 1, True, 0)
    assert over(191.0, 1, True, 5)
