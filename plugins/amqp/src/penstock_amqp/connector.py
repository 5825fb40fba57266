"""What the entry point names. Imports no client."""

from penstock.contracts import Connector
from penstock_amqp.sink import AmqpSink
from penstock_amqp.source import AmqpSource

connector = Connector(
    name="amqp",
    source=AmqpSource,
    sink=AmqpSink,
    summary="RabbitMQ and other AMQP 0-9-1 brokers: queues as a source, exchanges as a sink.",
    capabilities=frozenset(
        {"event-time", "lag", "live", "limits-bytes", "reconnects", "headers", "keys"}
    ),
)
