"""Object messages: moved aside unopened, within the session that received them."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from penstock_jms.bodies import kind_of
from penstock_jms.client import Client
from penstock_jms.handles import Handles

_log = logging.getLogger("penstock.jms")


class Rejects:
    """Sends object messages to another queue, as they are.

    In a transacted session the move and the acknowledgement of the lease are one: rolled back
    together, committed together. The queue is touched only when there is something to move.

    Args:
        client: Whose session does it.
        use: To look at many messages at once.
        queue: Where they go; None: nowhere, they are kept.
    """

    def __init__(self, client: Client, use: Handles, queue: str | None) -> None:
        self._client = client
        self._use = use
        self._queue = queue
        self._producer: Any = None

    def kept(self, messages: Any) -> Any:
        """The messages without those that were moved."""
        if self._queue is None or not self._any(messages):
            return messages
        opaque = np.array([self._is_object(type(message)) for message in messages])
        moved = self._use.chosen(messages, np.flatnonzero(opaque))
        if self._producer is None:
            queue = self._client.named(self._queue, queue=True)
            self._producer = self._client.session.createProducer(queue)
        for message in moved:
            self._producer.send(message)
        _log.warning("%d object messages are moved to %s, unopened", moved.size(), self._queue)
        return self._use.chosen(messages, np.flatnonzero(~opaque))

    def _any(self, messages: Any) -> bool:
        found = self._use.classes(messages)
        return any(self._is_object(self._use.java(str(each.getName()))) for each in found)

    def _is_object(self, java_class: Any) -> bool:
        return kind_of(java_class, self._use.namespace) == "object"
