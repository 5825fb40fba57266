"""A live consumer of one or more queues, over one channel."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.contracts import Consumer, Context, Lease, Limit
from penstock.contracts.errors import EphemeralReadError
from penstock.contracts.queue import cautious
from penstock_amqp.columns import Ordinary
from penstock_amqp.link import Link
from penstock_amqp.messages import rows_of
from penstock_amqp.received import Received
from penstock_amqp.runs import Pending, Run

if TYPE_CHECKING:
    from penstock_amqp.source import AmqpSource

GATHER = 0.02
"""How long a receive that has something goes on to take what still comes in."""
NAP = 0.005
"""Meanwhile the socket fills: to read each few messages as they come would cost more than they do."""
FIRST_PREFETCH = 100
OVERHEAD = 500
"""About what a message costs in memory beside its body and headers."""


class AmqpLease(Lease):
    """Messages of one channel, between two delivery tags."""

    def __init__(self, consumer: AmqpConsumer, taken: Run) -> None:
        self._consumer = consumer
        self._tags = taken.tags()
        self.rows = taken.rows
        self.redelivered = taken.redelivered
        self.deliveries = taken.deliveries

    def acknowledge(self) -> None:
        """All of the channel up to the last of these."""
        self._consumer.acknowledge(self._tags)

    def release(self) -> None:
        """These alone go back; on a quorum queue each release counts as a delivery."""
        self._consumer.release(self._tags)


class AmqpConsumer(Consumer):
    """Consumes with a prefetch that follows the size of messages, so that memory stays bounded."""

    def __init__(self, source: AmqpSource, ctx: Context, receiver: int) -> None:
        self._source = source
        self._part = uuid.uuid4().hex
        self._link = Link(source, f"penstock {ctx.pipeline}/{ctx.node} receiver {receiver}")
        self._pending = Pending(self._read)
        self._unacknowledged = 0
        self._window = Limit()
        self._prefetch = 0
        self._tags: list[str] = []
        self.origins: dict[str, str] = {}
        self._link.watch(self._arrived)
        try:
            for queue in source.queue:
                self._declare(queue)
        except BaseException:
            self._link.close()
            raise

    def window(self, limit: Limit) -> None:
        """The prefetch never exceeds it."""
        self._window = limit

    def receive(self, limit: Limit, wait: float) -> Lease | None:
        """Take what is there; the connection is served meanwhile."""
        if limit.rows == 0:
            self._link.pump(wait)
            return None
        if not self._prefetch:
            self._consume(self._source.prefetch or min(FIRST_PREFETCH, self._most()))
        self._gather(limit, wait)
        if not self._pending:
            return None
        taken = self._pending.take(limit)
        self._unacknowledged += len(taken)
        self._fit(taken)
        return AmqpLease(self, taken)

    def depth(self) -> int | None:
        """What is ready in all queues together."""
        return sum(self._declare(queue) for queue in self._source.queue)

    def unacknowledged(self) -> int:
        """Messages in open leases."""
        return self._unacknowledged

    def close(self) -> None:
        """The broker puts all that is not acknowledged back."""
        self._pending = Pending(self._read)
        self._link.close()

    def acknowledge(self, tags: pa.Int64Array) -> None:
        self._same_connection()
        assert self._link.channel is not None
        self._link.channel.basic_ack(tags[-1].as_py(), multiple=True)
        self._unacknowledged -= len(tags)
        self._link.pump(0.0)  # sends it now, and sees a connection that is gone

    def release(self, tags: pa.Int64Array) -> None:
        self._same_connection()
        assert self._link.channel is not None
        for tag in tags.to_pylist():
            self._link.channel.basic_nack(tag, multiple=False, requeue=True)
        self._unacknowledged -= len(tags)

    def _same_connection(self) -> None:
        if not self._link.alive:
            raise EphemeralReadError(
                "the connection these messages came over is gone; the broker has them again"
            )

    def _declare(self, queue: str) -> int:
        source = self._source
        assert self._link.channel is not None
        if source.declare:
            frame = self._link.call(
                self._link.channel.queue_declare,
                f"declaring {queue}",
                queue=queue,
                durable=True,
                arguments=dict(source.declare_arguments) or None,
            )
        else:
            frame = self._link.call(
                self._link.channel.queue_declare, f"looking up {queue}", queue=queue, passive=True
            )
        return int(frame.method.message_count)

    def _most(self) -> int:
        most = self._source.most_prefetched
        return most if self._window.rows is None else max(1, min(self._window.rows, most))

    def _consume(self, prefetch: int) -> None:
        channel = self._link.channel
        assert channel is not None
        for tag in self._tags:
            self._link.call(channel.basic_cancel, "cancelling", consumer_tag=tag)
        self._tags = []
        self._prefetch = prefetch
        # What a cancelled consumer holds does not count against the new one's prefetch.
        prefetch = max(prefetch // 2, prefetch - self._unacknowledged - len(self._pending))
        # Per consumer, as quorum queues know no other; several queues share the window.
        share = max(1, prefetch // len(self._source.queue))
        self._link.call(channel.basic_qos, "setting the prefetch", prefetch_count=share)
        channel.add_on_cancel_callback(self._cancelled)
        for queue in self._source.queue:
            tag = f"{self._part}-{len(self.origins)}"
            self.origins[tag] = f"amqp:{queue}"
            self._link.call(
                channel.basic_consume,
                f"consuming {queue}",
                queue=queue,
                on_message_callback=self._delivered,
                consumer_tag=tag,
                exclusive=self._source.exclusive,
                arguments=dict(self._source.arguments) or None,
            )
            self._tags.append(tag)

    def _delivered(self, channel: object, method: object, properties: object, body: bytes) -> None:
        """What pika has taken apart itself."""
        self._arrived([Received.of(method, properties, body)])

    def _arrived(self, messages: Ordinary | list[Received]) -> None:
        single = isinstance(messages, list)
        size = sum(each.size for each in messages) if single else int(messages.sizes.sum())
        self._pending.append(messages, size)

    def _read(self, messages: Ordinary | list[Received]) -> Run:
        read = rows_of if isinstance(messages, list) else Ordinary.run
        return read(messages, self.origins, self._part)

    def _cancelled(self, frame: object) -> None:
        self._link.lose(
            EphemeralReadError("the broker cancelled the consumer: a queue was deleted or moved")
        )

    def _gather(self, limit: Limit, wait: float) -> None:
        """Wait for the first, then take what still comes."""
        if self._pending:
            self._collect(limit)
        began = time.monotonic()
        while not self._pending:
            seen, left = self._link.arrived, began + wait - time.monotonic()
            self._link.pump(max(0.0, left), unread=True)
            if self._link.arrived > seen:
                self._collect(limit)
            if left <= 0:
                return

    def _collect(self, limit: Limit) -> None:
        """As long as more comes without a long pause; then read all of it together."""
        until = time.monotonic() + GATHER
        seen = -1
        while self._link.arrived > seen and time.monotonic() < until:
            if self._pending.fills(limit):
                break
            seen = self._link.arrived
            time.sleep(NAP)
            self._link.pump(0.0, unread=True)
            if self._link.unread >= self._pending.room(limit):
                self._link.read()
        self._link.read()

    def _fit(self, taken: Run) -> None:
        """Follow the size of messages with the prefetch, in coarse steps.

        A quorum queue counts as delivered what was sent ahead to a consumer that died, and drops
        what reaches its limit: little is sent ahead of messages that come again and again.
        """
        if self._source.prefetch is not None:
            return
        average = float(taken.sizes.mean()) + OVERHEAD
        wanted = self._most()
        if self._window.bytes is not None:
            wanted = max(1, min(wanted, int(self._window.bytes / average)))
        if taken.deliveries is not None:
            wanted = cautious(wanted, int(pc.max(taken.deliveries).as_py()) - 1)
        if not self._prefetch <= wanted < 2 * self._prefetch and not (
            self._prefetch / 2 < wanted < self._prefetch
        ):
            self._consume(wanted)
