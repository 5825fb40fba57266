"""Sources where reading destroys: a message that is acknowledged is gone from the broker.

Subclass `QueueSource` and `Consumer`; the core decides when to acknowledge (when Spark has
committed the batch, or when a segment is on disk) and what a replay reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.contracts.envelope import ENVELOPE
from penstock.contracts.options import Configured
from penstock.contracts.source import Context, Limit


class QueueSource(Configured):
    """A source whose records vanish once acknowledged. An attrs-frozen value of options."""

    leases: int | None = None
    """How many leases one consumer may hold open; None: many, acknowledged in order. 1: an
    acknowledgement covers everything received (JMS sessions)."""

    prefetch: int | None = None
    """How many unacknowledged messages the user lets one consumer have; None: as the core says."""

    most_prefetched: int | None = None
    """More unacknowledged messages than this no consumer can have; None: there is no such bound."""

    ordered: bool = True
    """Whether one consumer sees messages in the broker's order."""

    @abstractmethod
    def consumer(self, ctx: Context, receiver: int) -> Consumer:
        """A live consumer. Called once per receiver and reconnect, on the thread that owns it.

        Raises:
            EphemeralReadError: the broker does not answer; the core retries with backoff.
            ReadError: it refuses (credentials, no such queue).
        """

    def takes_from(self) -> Sequence[Any]:
        """What it takes messages from: values, equal where two sources take each other's.

        Called at analysis; must not open a connection or resolve a secret. A pipeline in which
        two sources of one connector share such a value is refused. By default the source itself
        with all its options; name server and queue, so that other options do not hide them.
        """
        return (self,)

    def schema(self) -> pa.Schema:
        """Always the envelope."""
        return ENVELOPE

    def check(self) -> None:
        """See that the broker answers, takes the credentials, and has the queue."""
        self.consumer(Context(node="check"), 0).close()


class Consumer(ABC):
    """One connection's consumer; all its methods run on one thread for its whole life."""

    def window(self, limit: Limit) -> None:  # noqa: B027
        """How much the core will hold unacknowledged at once, at most.

        Called once, before the first `receive`. May set a prefetch by it.
        """

    @abstractmethod
    def receive(self, limit: Limit, wait: float) -> Lease | None:
        """Take what is there within `limit`, waiting at most `wait` seconds for the first.

        Must serve heartbeats while it waits; `limit.rows == 0` means serve heartbeats only.
        Nothing came: None. Must not hold messages back that fit the limit.

        Raises:
            EphemeralReadError: the connection is lost; every open lease is void (QUE-05).
        """

    def depth(self) -> int | None:
        """How many messages wait in the broker; None if it cannot say."""
        return None

    def unacknowledged(self) -> int:
        """How many messages are in open leases of this consumer."""
        return 0

    @abstractmethod
    def close(self) -> None:
        """Stop consuming; what is not acknowledged goes back to the broker. Idempotent."""


OFTEN = 3
"""Deliveries of a message that are more than an accident or two."""


def cautious(most: int, deliveries: int) -> int:
    """How many messages to take at once when the first of them was delivered so often before.

    Whatever a consumer holds when it dies counts as delivered, and a broker that counts drops a
    message at its limit, healthy or not. A tenth from the third delivery on, a hundredth after the
    next: who keeps failing ends up alone, and its neighbours are spared.
    """
    return max(1, most // int(10 ** max(0, deliveries - OFTEN + 1)))


class Lease(ABC):
    """Messages taken together, in the channel's order.

    Attributes:
        rows: The messages as `ENVELOPE` rows.
        redelivered: One boolean per row: the broker had delivered it before.
        deliveries: How often each was delivered, where the broker counts; else None.
    """

    rows: pa.RecordBatch
    redelivered: pa.BooleanArray
    deliveries: pa.Int64Array | None = None

    @abstractmethod
    def acknowledge(self) -> None:
        """Give these to us for good; where acknowledgement is cumulative, all before them too.

        Called in lease order, on the consumer's thread, at most once. Must never travel over
        another connection than the one it came from (QUE-05): raise instead.

        Raises:
            EphemeralReadError: the connection it came from is gone; nothing was acknowledged.
        """

    @abstractmethod
    def release(self) -> None:
        """Put these back into the broker. At most once, and never after `acknowledge`."""
