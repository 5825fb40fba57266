"""How long a batch of AvailableNow fills."""

import pytest

from penstock.contracts import Limit
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

    def filled(self, most, **how):
        reader.fill(self.ready, most, self.pause, **how)
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
