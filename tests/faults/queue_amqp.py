"""A queue of RabbitMQ for fault runs."""

import uuid

import pika
import pyarrow as pa
from attrs import define, field

from penstock.conformance.oracle import Oracle
from penstock.conformance.waiting import until
from penstock.contracts import Batch, Context, Secret
from penstock_amqp.sink import AmqpSink
from tests.brokers.rabbitmq import RabbitMQ


@define
class AmqpPlace:
    """A durable classic queue."""

    broker: RabbitMQ
    queue: str = field(factory=lambda: f"faults-{uuid.uuid4().hex[:8]}")

    def fill(self, oracle: Oracle) -> None:
        connection = self.broker.connection()
        connection.channel().queue_declare(self.queue, durable=True)
        connection.close()
        sink = AmqpSink(url=Secret(self.broker.url), routing_key=self.queue)
        schema = pa.schema([("value", pa.binary()), ("id", pa.string())])
        writer = sink.open(Batch(Context(query="fill"), 0), 0, 0, schema)
        values = [f"{name} payload".encode() for name in oracle.ids]
        writer.write(pa.RecordBatch.from_arrays([values, list(oracle.ids)], schema=schema))
        writer.close()

    def options(self, port: int) -> dict[str, str]:
        url = f"amqp://guest:guest@127.0.0.1:{port}/"
        return {"url": url, "queue": self.queue, "heartbeat": "5"}

    def depth(self) -> int:
        found: list[int] = []

        def ask() -> bool:
            try:
                connection = self.broker.connection()
            except pika.exceptions.AMQPError:
                return False  # it is being killed or frozen just now
            declared = connection.channel().queue_declare(self.queue, passive=True)
            connection.close()
            found.append(declared.method.message_count)
            return declared.method.consumer_count == 0

        until(ask, within=150, why="the broker answers, and nobody consumes", every=0.5)
        return found[-1]
