"""A queue of its own for every test, and a plain client to look at it from outside."""

import uuid

import pika
import pytest


class Place:
    """A queue, and a fanout exchange bound to it."""

    def __init__(self, server, arguments=None):
        self.server = server
        self.queue = f"q-{uuid.uuid4().hex[:12]}"
        self.exchange = f"x-{self.queue}"
        with self.channel() as channel:
            channel.queue_declare(self.queue, durable=True, arguments=arguments)
            channel.exchange_declare(self.exchange, "fanout", durable=True)
            channel.queue_bind(self.queue, self.exchange)

    def channel(self):
        return _Channel(self.server)

    def send(self, *bodies, **properties):
        with self.channel() as channel:
            channel.confirm_delivery()
            for body in bodies:
                made = {"delivery_mode": 2, "message_id": body, **properties}
                channel.basic_publish(
                    "", self.queue, body.encode(), pika.BasicProperties(**made), mandatory=True
                )

    def depth(self):
        with self.channel() as channel:
            return channel.queue_declare(self.queue, passive=True).method.message_count

    def consumers(self):
        with self.channel() as channel:
            return channel.queue_declare(self.queue, passive=True).method.consumer_count

    def peek(self):
        """The bodies of all messages in the queue; they stay there."""
        found = []
        with self.channel() as channel:
            while True:
                method, _, body = channel.basic_get(self.queue)
                if method is None:
                    break
                found.append(body)
                last = method.delivery_tag
            if found:
                channel.basic_nack(last, multiple=True, requeue=True)
                channel.queue_declare(self.queue, passive=True)  # after the nack has arrived
        return found

    def take(self):
        """Everything in the queue, as (method, properties, body)."""
        found = []
        with self.channel() as channel:
            while True:
                got = channel.basic_get(self.queue, auto_ack=True)
                if got[0] is None:
                    return found
                found.append(got)


class _Channel:
    def __init__(self, server):
        self._server = server

    def __enter__(self):
        self._connection = pika.BlockingConnection(pika.URLParameters(self._server.url))
        return self._connection.channel()

    def __exit__(self, *_):
        if self._connection.is_open:
            self._connection.close()


@pytest.fixture
def place(rabbitmq):
    return Place(rabbitmq)
