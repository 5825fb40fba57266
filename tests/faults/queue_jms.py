"""A queue of Artemis for fault runs."""

import uuid
from collections.abc import Callable
from typing import Any

from attrs import define, field

from penstock.conformance.oracle import Oracle
from penstock.conformance.waiting import until
from penstock.contracts import Context, Limit, Sink
from penstock.contracts.errors import EphemeralError
from penstock.contracts.options import parse
from penstock_jms.sink import JmsSink
from penstock_jms.source import JmsConsumer, JmsSource
from tests.brokers.artemis import Artemis
from tests.faults.queue_writing import written

# What a client does about a silent broker is its own setting; here it gives up soon.
HASTY = "callTimeout=5000&clientFailureCheckPeriod=2000&connectionTTL=4000"
DEAD = "DLQ"


@define
class JmsPlace:
    """A durable queue."""

    broker: Artemis
    queue: str = field(factory=lambda: f"faults-{uuid.uuid4().hex[:8]}")
    forgets: int = 0

    def fill(self, oracle: Oracle) -> None:
        sink = parse(JmsSink, {**self.options(self.broker.port), "transaction_rows": "1000"})
        written(sink, 0, oracle.ids)

    def options(self, port: int) -> dict[str, str]:
        return {
            "jars": ",".join(map(str, self.broker.client_jars)),
            "url": f"tcp://127.0.0.1:{port}?{HASTY}",
            "user": self.broker.user,
            "password": self.broker.password,
            "queue": self.queue,
        }

    def sink(self, port: int, **more: str) -> Sink:
        return parse(JmsSink, {**self.options(port), **more})

    def depth(self) -> int:
        """How many are left, those that the broker has set aside as undeliverable included."""
        return sum(self._asked(name, lambda at: at.depth() or 0) for name in (self.queue, DEAD))

    def taken(self) -> list[str]:
        """All ids that are in the queue, which is empty then."""
        found: list[str] = []

        def take(consumer: JmsConsumer) -> None:
            while (lease := consumer.receive(Limit(rows=2000), 1.0)) is not None:
                found.extend(value.decode() for value in lease.rows.column("value").to_pylist())
                lease.acknowledge()

        self._asked(self.queue, take)
        return found

    def _asked(self, queue: str, question: Callable[[JmsConsumer], Any]) -> Any:
        """Ask when the broker answers: it may be being killed or frozen just now."""
        answers: list[Any] = []
        source = parse(JmsSource, {**self.options(self.broker.port), "queue": queue})

        def ask() -> bool:
            try:
                consumer = source.consumer(Context(), 0)
                try:
                    answers.append(question(consumer))
                finally:
                    consumer.close()
            except EphemeralError:
                return False
            return True

        until(ask, within=150, why="the broker answers", every=0.5)
        return answers[-1]
