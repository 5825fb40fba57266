"""The AMQP source: options only; the client is loaded when a consumer is made."""

from __future__ import annotations

from typing import Any

from penstock.contracts import Consumer, Context, QueueSource, connector, option
from penstock.contracts.errors import OptionError
from penstock_amqp.address import Address

_MOST = 65535  # the prefetch has two octets


@connector
class AmqpSource(Address, QueueSource):
    """Messages of RabbitMQ or another AMQP 0-9-1 broker, from classic and quorum queues."""

    most_prefetched = _MOST

    queue: tuple[str, ...] = option(
        doc="The queue to read, or several; order is kept within each.", example="orders"
    )
    prefetch: int | None = option(
        default=None,
        doc="How many unacknowledged messages the broker may send ahead; follows max_rows, "
        "max_bytes and the size of messages unless given.",
        check=lambda value: None if 1 <= value <= _MOST else f"must be between 1 and {_MOST}",
    )
    exclusive: bool = option(default=False, doc="Refuse to share the queue with other consumers.")
    arguments: dict[str, Any] = option(
        factory=dict, doc="Arguments of basic.consume.", example='{"x-priority": 10}'
    )
    declare: bool = option(
        default=False,
        doc="Declare the queue as durable if it is missing. Else it must exist and is taken as "
        "it is.",
    )
    declare_arguments: dict[str, Any] = option(
        factory=dict,
        doc="Arguments of queue.declare; they must match an existing queue's.",
        example='{"x-queue-type": "quorum"}',
    )

    def settle(self) -> None:
        super().settle()
        if not self.queue:
            raise OptionError("the option queue is empty", expected="the name of a queue")
        if self.declare_arguments and not self.declare:
            raise OptionError(
                "declare_arguments are given, but the queue is not to be declared",
                fix="add declare=true, or drop declare_arguments",
            )

    def takes_from(self) -> list[Any]:
        return [(*broker, queue) for broker in self.brokers() for queue in self.queue]

    def consumer(self, ctx: Context, receiver: int) -> Consumer:
        from penstock_amqp.consumer import AmqpConsumer

        return AmqpConsumer(self, ctx, receiver)
