"""RabbitMQ and other AMQP 0-9-1 brokers as a queue source and a sink."""

from penstock.contracts import Connector

connector = Connector(
    name="amqp",
    source="penstock_amqp.source:AmqpSource",
    queue=True,
    sink="penstock_amqp.sink:AmqpSink",
    summary="RabbitMQ and other AMQP 0-9-1 brokers: queues as a source, exchanges as a sink.",
    capabilities=frozenset(
        {"event-time", "lag", "live", "limits-bytes", "reconnects", "headers", "keys"}
    ),
)
