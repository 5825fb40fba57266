"""A queue of RabbitMQ for fault runs."""

import uuid

import pika
from attrs import define, field

from penstock.conformance.oracle import Oracle
from penstock.conformance.waiting import until
from penstock.contracts import Sink
from penstock.contracts.options import parse
from penstock_amqp.sink import AmqpSink
from tests.brokers.rabbitmq import RabbitMQ
from tests.faults.queue_writing import written


@define
class AmqpPlace:
    """A durable queue, classic or quorum."""

    broker: RabbitMQ
    kind: str = "classic"
    queue: str = field(factory=lambda: f"faults-{uuid.uuid4().hex[:8]}")

    @property
    def forgets(self) -> int:
        """A classic queue writes acknowledgements when it has time for it: 1,100 were seen again."""
        return 2_000 if self.kind == "classic" else 0

    def fill(self, oracle: Oracle) -> None:
        self.declare()
        written(self.sink(self.broker.port), 0, oracle.ids)

    def declare(self) -> None:
        connection = self.broker.connection()
        arguments = {"x-queue-type": self.kind}
        connection.channel().queue_declare(self.queue, durable=True, arguments=arguments)
        connection.close()

    def sink(self, port: int, **more: str) -> Sink:
        where = {"url": self._url(port), "routing_key": self.queue, "heartbeat": "5"}
        return parse(AmqpSink, {**where, **more})

    def options(self, port: int) -> dict[str, str]:
        return {"url": self._url(port), "queue": self.queue, "heartbeat": "5"}

    def depth(self) -> int:
        found: list[int] = []

        def ask() -> bool:
            try:
                connection = self.broker.connection()
                declared = connection.channel().queue_declare(self.queue, passive=True)
                connection.close()
            except pika.exceptions.AMQPError:
                return False  # it is being killed or frozen just now
            found.append(declared.method.message_count)
            return declared.method.consumer_count == 0

        until(ask, within=150, why="the broker answers, and nobody consumes", every=0.5)
        return found[-1]

    def taken(self) -> list[str]:
        """All ids that are in the queue, which is empty then."""
        connection = self.broker.connection()
        channel = connection.channel()
        found: list[str] = []
        for method, _, body in channel.consume(self.queue, inactivity_timeout=2):
            if method is None:
                break
            found.append(body.decode())
            channel.basic_ack(method.delivery_tag)
        connection.close()
        return found

    def _url(self, port: int) -> str:
        return f"amqp://guest:guest@127.0.0.1:{port}/"
