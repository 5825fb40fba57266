"""What the writer does with a broker that goes away, on a clock of its own."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from penstock.contracts import Batch, Context
from penstock.contracts.errors import EphemeralWriteError
from penstock_amqp import writer
from penstock_amqp.sink import AmqpSink

VALUE = pa.schema([("value", pa.binary())])


class Wire:
    """A broker that confirms on every pump, and is away for a while after so many messages."""

    def __init__(self, monkeypatch, away_after, away_for):
        self.now, self.taken, self._sent = 0.0, [], 0
        self._away_after, self._away_for, self._back = away_after, away_for, None
        monkeypatch.setattr(writer, "Link", lambda *_, **__: Linked(self))
        monkeypatch.setattr(writer.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(writer.time, "sleep", self._slept)

    def _slept(self, seconds):
        self.now += seconds

    def here(self):
        if self._back is None and self._sent >= self._away_after:
            self._back = self.now + self._away_for
        if self._back is not None and self.now < self._back:
            raise EphemeralWriteError("the broker is away")


class Linked:
    def __init__(self, wire):
        wire.here()
        self._wire, self._told, self._tag, self._unsure = wire, None, 0, []
        self.channel = SimpleNamespace(
            add_on_return_callback=lambda _: None,
            confirm_delivery=None,
            basic_publish=self._publish,
        )

    def call(self, _, __, ack_nack_callback):
        self._told = ack_nack_callback

    def raise_if_lost(self):
        pass

    def _publish(self, _, __, body, ___, **____):
        self._unsure.append(body)
        self._wire._sent += 1

    def pump(self, _):
        self._wire.now += 0.01
        self._wire.here()
        for body in self._unsure:
            self._tag += 1
            self._wire.taken.append(body)
            method = SimpleNamespace(delivery_tag=self._tag, multiple=False, NAME="Basic.Ack")
            self._told(SimpleNamespace(method=method))
        self._unsure = []

    def close(self):
        pass


def written(count, retry_for):
    made = AmqpSink(routing_key="q", window=50, retry_for=retry_for)
    to = made.open(Batch(Context(query="query", node="out"), 7), 0, 0, VALUE)
    to.write(pa.RecordBatch.from_pydict({"value": [b"%d" % n for n in range(count)]}, schema=VALUE))
    return to.close()


@pytest.mark.parametrize("away_after", [30, 50, 100, 199, 200])
def test_a_broker_that_comes_back_in_time_gets_all_that_it_had_not_confirmed(
    monkeypatch, away_after
):
    wire = Wire(monkeypatch, away_after, away_for=5)
    assert written(200, retry_for=10).rows == 200
    assert set(wire.taken) == {b"%d" % n for n in range(200)}


@pytest.mark.parametrize("away_after", [30, 50, 100, 199, 200])
def test_a_broker_that_stays_away_too_long_fails_the_task_and_is_not_looked_for_twice(
    monkeypatch, away_after
):
    wire = Wire(monkeypatch, away_after, away_for=18)
    with pytest.raises(EphemeralWriteError):
        written(200, retry_for=10)
    assert wire.now < 18
