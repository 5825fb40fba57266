"""JMS queues and durable subscriptions as a source."""

from __future__ import annotations

import time
import uuid
from typing import Any, Literal

import pyarrow.compute as pc

from penstock.contracts import Consumer, Context, Lease, Limit, QueueSource, connector, option
from penstock.contracts.errors import EphemeralReadError, OptionError, ReadError
from penstock_jms.client import Client
from penstock_jms.columns import Pass
from penstock_jms.failures import speaking
from penstock_jms.handles import handles
from penstock_jms.jvm import WHO
from penstock_jms.options import Connecting
from penstock_jms.pace import Pace, head
from penstock_jms.reading import Reading, Received, joined, received
from penstock_jms.rejects import Rejects

CHUNK = 1000
"""Messages moved by one call into Java at most."""

NAP = 0.01
"""Seconds in which the client's buffer fills, where many messages were waited for one by one: then
one thread wakes another for each, which costs more than the message."""

FRESH = 0.05
"""Seconds after which a broker that sends messages is asked whether it lives: its answer comes
behind what is on its way, and to wait for it each time would cost a third of the speed."""

LINGER = 10
"""Milliseconds without a message that end a lease: brokers push, and a push takes a moment."""


@connector
class JmsSource(Connecting, QueueSource):
    """Messages of a JMS queue, or of a durable subscription to a topic."""

    leases = 1

    selector: str | None = option(
        default=None, doc="Only messages that match.", example="region = 'EU' AND total > 100"
    )
    subscription: str | None = option(
        default=None, doc="Name of the durable subscription to `topic`; made if it is not there."
    )
    shared: bool = option(
        default=False,
        doc="Share the subscription, so that several receivers take from it (JMS 2.0).",
    )
    event_time_property: str | None = option(
        default=None,
        doc="A property with the event time in milliseconds since 1970; messages without it, "
        "and all if this is not set, have JMSTimestamp, the time of sending.",
    )
    object_messages: Literal["reject", "row"] = option(
        default="reject",
        doc="Object messages are never opened. `reject`: they move to the queue `reject_to`, as "
        "they are, when the messages beside them are acknowledged. `row`: a row whose value is "
        "null; a coder skips it.",
    )
    reject_to: str | None = option(
        default=None,
        doc="The queue for rejected messages. Default: the name of the queue or subscription "
        "with `.rejected` behind it.",
    )
    session: Literal["transacted", "client"] = option(
        default="transacted",
        doc="How messages are acknowledged: by committing a transacted session, or by "
        "acknowledging by hand. Either covers all that the session has received.",
    )

    def settle(self) -> None:
        """Refuse what cannot work together."""
        super().settle()
        if (self.topic is None) != (self.subscription is None):
            raise OptionError(
                "a topic is read through a durable subscription, or messages would be lost",
                expected="topic and subscription, or queue",
                got="a topic without a subscription" if self.topic else "a subscription alone",
                fix="add subscription=..." if self.topic else "drop it, or give a topic",
            )
        if self.shared and self.subscription is None:
            raise OptionError("only a subscription can be shared", fix="drop shared")
        if self.subscription is not None and not self.shared and self.client_id is None:
            raise OptionError(
                "a durable subscription belongs to a client id",
                expected="client_id, or shared=true",
                got="neither",
                fix="add client_id=...",
            )

    def rejected(self) -> str | None:
        """The queue that rejected messages move to; None if they become rows."""
        if self.object_messages == "row":
            return None
        return self.reject_to or f"{self.queue or f'{self.topic}.{self.subscription}'}.rejected"

    def takes_from(self) -> list[Any]:
        """The broker, the destination, and which of its messages: a selector of its own is fine."""
        factory = (self.url, self.properties, self.jndi_name, self.jndi_file, self.jndi)
        subscription = (self.topic, self.subscription, self.client_id)
        return [(factory, self.queue or subscription, self.selector)]

    def consumer(self, ctx: Context, receiver: int) -> JmsConsumer:
        """A connection with one session and one consumer."""
        if receiver > 0 and self.subscription is not None and not self.shared:
            raise ReadError(
                "an unshared subscription has one receiver",
                who=WHO,
                got=f"receiver number {receiver + 1}",
                fix="set receivers=1, or shared=true where the broker has JMS 2.0",
            )
        return JmsConsumer(self, receiver)


class JmsLease(Lease):
    """All that a session has received since it was last acknowledged."""

    def __init__(self, consumer: JmsConsumer, found: Received, last: Any) -> None:
        self.rows = found.rows
        self.redelivered = found.redelivered
        self.deliveries = found.deliveries
        self._consumer = consumer
        self._last = last

    def acknowledge(self) -> None:
        """Commit the session, or acknowledge its last message."""
        self._consumer.settle(self, self._last, keep=True)

    def release(self) -> None:
        """Roll the session back, or recover it: the broker delivers again."""
        self._consumer.settle(self, self._last, keep=False)


class JmsConsumer(Consumer):
    """One connection, one session, one lease at a time."""

    def __init__(self, source: JmsSource, receiver: int) -> None:
        self._source = source
        self._transacted = source.session == "transacted"
        self._way = Reading(
            origin=f"jms:{source.queue or f'{source.topic}/{source.subscription}'}",
            part=f"{receiver}-{uuid.uuid4().hex}",
            time=source.event_time_property,
        )
        self._position = 0
        self._open: JmsLease | None = None
        self._client: Client | None = None
        self._fetch: int | None = None
        self._pace = Pace(source)
        self._connect()

    def window(self, limit: Limit) -> None:
        """Artemis's client fetches no more ahead than this."""
        self._pace.window(limit)

    def receive(self, limit: Limit, wait: float) -> JmsLease | None:
        """A lease of what is there. Bytes are counted after they came: one step may pass them."""
        self._alive("receiving")
        if limit.rows == 0:
            time.sleep(wait)  # the client library's own threads serve the heartbeats
            return None
        if self._open is not None:
            raise ReadError(
                "a JMS session has one lease at a time",
                who=WHO,
                expected="acknowledge or release before the next receive",
                got=f"an open lease of {self._open.rows.num_rows} messages",
            )
        with speaking("receiving"):
            self._keep_pace()
            limit = self._pace.limited(limit)
            millis = int(wait * 1000)
            with self._client.acknowledging():
                first = self._consumer.receive(millis) if millis else self._consumer.receiveNoWait()
            if first is None:
                return None
            parts, last = self._gathered(first, limit)
            if not parts:
                # All were rejected, and wait for no batch.
                self._acknowledge(last)
                return None
        found = joined(parts)
        if found.deliveries is not None:
            self._pace.before = int(pc.max(found.deliveries).as_py()) - 1
        self._open = JmsLease(self, found, last)
        return self._open

    def depth(self) -> int | None:
        """How many messages wait, where the broker is Artemis; those of the lease do not."""
        self._alive("asking for the depth")
        assert self._client is not None
        artemis, source = self._client.artemis, self._source
        if artemis is None or source.queue is None or source.selector is not None:
            return None
        with speaking("asking for the depth"):
            return artemis.depth() - self.unacknowledged()

    def unacknowledged(self) -> int:
        """The messages of the open lease."""
        return 0 if self._open is None else self._open.rows.num_rows

    def settle(self, lease: JmsLease, last: Any, *, keep: bool) -> None:
        """Acknowledge or release a lease; only the open one of a live connection."""
        if self._client is None or self._open is not lease:
            raise EphemeralReadError(
                "this lease is void: its session is gone or has moved on",
                who=WHO,
                fix="receive again; the broker delivers the messages once more",
            )
        self._open = None
        with speaking("acknowledging" if keep else "releasing"):
            if keep:
                self._acknowledge(last)
            else:
                self._release()

    def _acknowledge(self, last: Any) -> None:
        with self._client.acknowledging():
            if self._transacted:
                self._client.session.commit()
            elif self._client.artemis is not None:
                self._client.artemis.commit()
            else:
                last.acknowledge()

    def _release(self) -> None:
        with self._client.acknowledging():
            if self._transacted:
                self._client.session.rollback()
            else:
                self._client.session.recover()

    def close(self) -> None:
        """Drop the connection; the broker takes back what is open."""
        client, self._client, self._open = self._client, None, None
        if client is not None:
            client.close()

    def _connect(self) -> None:
        """Connect, look what comes first, and subscribe at the pace that it needs."""
        self._reach(self._pace.fetch)
        assert self._client is not None
        try:
            with speaking("subscribing"):
                self._look()
                if self._pace.fetch != self._fetch:
                    self._reach(self._pace.fetch)
                source = self._source
                self._consumer = _subscribed(self._client, source)
                self._use = handles(self._client.loader, self._client.namespace)
                self._pass = Pass(self._use, () if self._way.time is None else (self._way.time,))
                self._receiver = self._use.receiver(self._consumer, LINGER)
                self._rejects = Rejects(self._client, self._use, source.rejected())
        except BaseException:
            self.close()
            raise

    def _reach(self, fetch: int | None) -> None:
        self.close()
        self._fetch = fetch
        self._client = Client(self._source, transacted=self._transacted, fetch=fetch)
        with speaking("connecting"):
            self._client.begin()

    def _keep_pace(self) -> None:
        """Fetch less, or as usual again, if what comes next asks for it."""
        assert self._client is not None
        if self._client.artemis is None:
            return
        if self._fetch == 0:
            self._look()
        if self._pace.fetch != self._fetch:
            self._connect()

    def _look(self) -> None:
        """See how often the next message was delivered, where the broker shows it."""
        assert self._client is not None
        if self._client.artemis is not None and self._source.queue is not None:
            seen = head(self._client, self._source.selector)
            self._pace.before = self._pace.before if seen is None else seen

    def _gathered(self, first: Any, limit: Limit) -> tuple[list[Received], Any]:
        """What is there, in pieces, and the last message of all."""
        messages = self._use.one(first)
        parts: list[Received] = []
        rows = size = 0
        largest = step = 1
        waited = False
        while True:
            last = messages.get(messages.size() - 1)
            rows += messages.size()
            kept = self._rejects.kept(self._pass.read(messages))
            if len(kept.kinds):
                found = received(self._use, kept, self._way, self._position)
                parts.append(found)
                size += found.rows.nbytes
                self._position += found.rows.num_rows
                largest = max(largest, -(-found.rows.nbytes // found.rows.num_rows))
            # The first may be small and those behind it large: look at a few before many.
            step = min(10 * step, CHUNK)
            room = step if limit.rows is None else min(step, limit.rows - rows)
            if limit.bytes is not None:
                room = min(room, (limit.bytes - size) // largest)
            if room <= 0:
                return parts, last
            if waited:
                time.sleep(NAP)
            began = time.monotonic()
            with self._client.acknowledging(FRESH):
                messages = self._use.take(self._receiver, room)
            waited = room == CHUNK and time.monotonic() - began > NAP
            if messages.isEmpty():
                # A client that can ask its broker whether there is more does so here.
                with self._client.acknowledging(FRESH):
                    late = self._consumer.receiveNoWait()
                if late is None:
                    return parts, last
                messages.add(late)

    def _alive(self, doing: str) -> None:
        if self._client is None:
            raise EphemeralReadError(f"{doing} on a closed consumer", who=WHO)


def _subscribed(client: Client, source: JmsSource) -> Any:
    session, destination, name = client.session, client.destination, source.subscription
    # No selector is another method, not null: clients have overloads that null fits as well.
    chosen = () if source.selector is None else (source.selector,)
    if name is None:
        return session.createConsumer(destination, *chosen)
    if source.shared:
        return session.createSharedDurableConsumer(destination, name, *chosen)
    return session.createDurableSubscriber(
        destination, name, *chosen, *((False,) if chosen else ())
    )
