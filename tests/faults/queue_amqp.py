"""A queue behind a breakable network, a driver that is killed on the way, and who counts."""

import json
import sys
import threading
import time
import uuid
from collections.abc import Callable

import pika
import pyarrow as pa
from attrs import define, field

from penstock.conformance.driver import SPEC
from penstock.conformance.kill import Driver
from penstock.conformance.ledger import attempts
from penstock.conformance.oracle import Oracle, Verdict
from penstock.conformance.waiting import NotInTime, until
from penstock.contracts import Batch, Context, Secret
from penstock_amqp.sink import AmqpSink
from tests.brokers.rabbitmq import RabbitMQ
from tests.faults.proxy import Proxy

LIFE = 240.0


@define
class Disturbance:
    """What is done to the broker or the network once so many records are finished."""

    name: str
    after: int
    act: Callable[["Rig"], None]
    done: bool = False


@define
class Rig:
    """One run: N ids through a queue into a ledger, with faults in between."""

    folder: object
    broker: RabbitMQ
    proxy: Proxy
    oracle: Oracle
    delivery: str
    max_rows: int
    queue: str = field(factory=lambda: f"faults-{uuid.uuid4().hex[:8]}")

    def fill(self) -> None:
        with _channel(self.broker) as channel:
            channel.queue_declare(self.queue, durable=True)
        sink = AmqpSink(url=Secret(self.broker.url), routing_key=self.queue)
        schema = pa.schema([("value", pa.binary()), ("id", pa.string())])
        writer = sink.open(Batch(Context(query="fill"), 0), 0, 0, schema)
        ids = list(self.oracle.ids)
        values = [f"{name} payload".encode() for name in ids]
        writer.write(pa.RecordBatch.from_arrays([values, ids], schema=schema))
        writer.close()

    def driver(self, strikes: list[str]) -> Driver:
        state = self.folder / "state"
        checkpoint = self.folder / "checkpoint"
        address = f"amqp://guest:guest@{self.proxy.address}/"
        options = {
            "url": address,
            "queue": self.queue,
            "heartbeat": "5",
            "checkpoint": str(checkpoint),
            "state": str(state),
            "delivery": self.delivery,
            "max_rows": str(self.max_rows),
            "unique_ids": "true" if self.delivery == "pessimistic" else "false",
            "connector": "penstock_amqp:connector",
        }
        spec = {
            "read": {"format": "penstock.under-test", "options": options},
            "write": {"format": "penstock.ledger", "options": {"path": str(self.ledger)}},
            "checkpoint": str(checkpoint),
            "events": str(self.folder / "events"),
        }
        return Driver(
            [sys.executable, "-m", "penstock.conformance.driver"],
            folder=self.folder / "driver",
            strikes=strikes,
            env={SPEC: json.dumps(spec)},
        )

    @property
    def ledger(self):
        return self.folder / "ledger"

    def finished(self) -> list[str]:
        """The ids that are in the sink for good, each as often as it is there."""
        done = [each for each in attempts(self.ledger) if each.finished]
        return [n for each in done if each.rows.num_rows for n in each.rows["id"].to_pylist()]

    def depth(self) -> int:
        with _channel(self.broker) as channel:
            return channel.queue_declare(self.queue, passive=True).method.message_count

    def run(self, strikes: list[str], disturbances: list[Disturbance], allowed: int) -> Verdict:
        self.fill()
        driver = self.driver(strikes)
        ended = threading.Event()
        disturber = threading.Thread(target=self._disturb, args=(disturbances, ended))
        disturber.start()
        try:
            driver.finish(within=LIFE)
            # What the last kill or cut put back after AvailableNow had looked.
            again = self.driver([])
            until(lambda: self._rest(again), within=3 * LIFE, why="the queue and spool are empty")
        finally:
            ended.set()
            disturber.join()
        missed = [each.name for each in disturbances if not each.done]
        if missed:
            raise NotInTime(f"never happened: {', '.join(missed)}")
        return self.oracle.judge(self.finished(), duplicates=allowed)

    def _rest(self, driver: Driver) -> bool:
        driver.finish(within=LIFE)
        return self.depth() == 0

    def _disturb(self, disturbances: list[Disturbance], ended: threading.Event) -> None:
        for each in sorted(disturbances, key=lambda d: d.after):
            while not ended.wait(0.2):
                if len(self.finished()) >= each.after:
                    each.act(self)
                    each.done = True
                    break


def broker_killed(rig: Rig) -> None:
    rig.broker.kill()
    rig.broker.start()


def broker_frozen(seconds: float) -> Callable[[Rig], None]:
    def act(rig: Rig) -> None:
        rig.broker.freeze()
        time.sleep(seconds)  # the fault itself, not a wait for something
        rig.broker.thaw()

    return act


def connections_cut(rig: Rig) -> None:
    rig.proxy.cut()
    rig.proxy.pass_through()


class _channel:  # noqa: N801
    def __init__(self, broker: RabbitMQ) -> None:
        self._broker = broker

    def __enter__(self):
        self._connection = pika.BlockingConnection(pika.URLParameters(self._broker.url))
        return self._connection.channel()

    def __exit__(self, *_: object) -> None:
        self._connection.close()
