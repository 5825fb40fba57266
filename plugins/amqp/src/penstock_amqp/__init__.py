"""RabbitMQ and other AMQP 0-9-1 brokers as a queue source and a sink."""

from penstock_amqp.connector import connector

__all__ = ["connector"]
