"""A thread that owns one consumer: receives, serves heartbeats, acknowledges, reconnects."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from penstock.contracts.errors import EphemeralError, PenstockError, ReadError
from penstock.contracts.points import reached
from penstock.contracts.queue import Consumer, QueueSource
from penstock.contracts.source import Context
from penstock.spark.queues.backoff import Backoff
from penstock.spark.queues.ledger import Ledger

log = logging.getLogger("penstock.queues")

BUSY_WAIT = 0.02
"""How long a receiver listens to the broker between two looks at the commits it waits for."""
IDLE_WAIT = 0.1
DEPTH_EVERY = 1.0


class Receiver:
    """Consumes for a ledger until told to stop.

    The consumer is made, used and closed on this thread alone. `look` is called often and finds
    new commits.
    """

    def __init__(
        self,
        source: QueueSource,
        ctx: Context,
        number: int,
        ledger: Ledger,
        retry_for: float,
        look: Callable[[], None],
    ) -> None:
        self._source = source
        self._ctx = ctx
        self.number = number
        self._ledger = ledger
        self._backoff = Backoff(retry_for)
        self._look = look
        self._stopping = threading.Event()
        self._depth_at = 0.0
        self.error: BaseException | None = None
        self.connected = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"penstock-receiver-{number}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end: it acknowledges what is due and gives the rest back."""
        self._stopping.set()

    def join(self, seconds: float) -> bool:
        """Wait for its end; False if it is still at it."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._session()
        except BaseException as error:
            self.error = error
        finally:
            self.connected.set()
            self._ledger.wake()

    def _session(self) -> None:
        consumer: Consumer | None = None
        try:
            consumer = self._source.consumer(self._ctx, self.number)
            consumer.window(self._ledger.window)
            self._measure(consumer)
            self.connected.set()
            while not self._stopping.is_set():
                self._turn(consumer)
                self._backoff.worked()
            self._acknowledge()
        except PenstockError as error:
            if not isinstance(error, EphemeralError):
                raise
            self._lost(error)
        finally:
            self._ledger.void(self.number)
            if consumer is not None:
                consumer.close()

    def _turn(self, consumer: Consumer) -> None:
        self._acknowledge()
        if time.monotonic() - self._depth_at > DEPTH_EVERY:
            self._measure(consumer)
        wait = BUSY_WAIT if self._ledger.waits() else IDLE_WAIT
        lease = consumer.receive(self._ledger.room(self.number), wait)
        if lease is not None:
            self._ledger.add(self.number, lease)

    def _acknowledge(self) -> None:
        self._look()
        due = self._ledger.due(self.number)
        if due:
            reached("before-ack", leases=len(due))
        for lease in due:
            lease.acknowledge()

    def _measure(self, consumer: Consumer) -> None:
        self._depth_at = time.monotonic()
        depth = consumer.depth()
        if depth is not None:
            self._ledger.counts.depth[self.number] = depth
            self._ledger.counts.first.setdefault(self.number, depth)

    def _lost(self, error: PenstockError) -> None:
        """The broker took all open leases back; look for it again after a pause."""
        self.connected.clear()
        self._ledger.void(self.number)
        self._ledger.counts.reconnects += 1
        pause = self._backoff.pause()
        if pause is None:
            raise ReadError(
                f"the broker could not be reached again: {error.message}",
                got=error.got,
                fix="see that the broker runs; retry_for sets how long to look for it",
            ) from error
        log.warning("receiver %d lost its broker (%s); again in %.1f s", self.number, error, pause)
        self._stopping.wait(pause)
