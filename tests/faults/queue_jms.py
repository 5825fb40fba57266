"""A queue of Artemis for fault runs."""

import uuid

from attrs import define, field

from penstock.conformance.oracle import Oracle
from penstock.conformance.waiting import until
from penstock.contracts import Context
from penstock.contracts.errors import EphemeralError
from penstock.contracts.options import parse
from penstock_jms.source import JmsSource
from tests.brokers.artemis import Artemis
from tests.faults.test_jms_broker import fill, options


@define
class JmsPlace:
    """A durable queue."""

    broker: Artemis
    queue: str = field(factory=lambda: f"faults-{uuid.uuid4().hex[:8]}")

    def fill(self, oracle: Oracle) -> None:
        fill(self.broker, self.queue, oracle)

    def options(self, port: int) -> dict[str, str]:
        # Every kill counts as a delivery of all that the client had fetched: fetch little.
        return {
            **options(self.broker, port, self.queue),
            "property.consumerWindowSize": "65536",
            "poison": "0",
        }

    def depth(self) -> int:
        """How many are left, those that the broker has set aside as undeliverable included."""
        found: list[int] = []

        def ask() -> bool:
            found.clear()
            for name in (self.queue, "DLQ"):
                source = parse(JmsSource, options(self.broker, self.broker.port, name))
                try:
                    consumer = source.consumer(Context(), 0)
                    try:
                        found.append(consumer.depth() or 0)
                    finally:
                        consumer.close()
                except EphemeralError:
                    return False  # it is being killed or frozen just now
            return True

        until(ask, within=150, why="the broker answers", every=0.5)
        return sum(found)
