"""Object messages: moved aside unopened, within the session that received them."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from penstock_jms.client import Client
from penstock_jms.columns import BODY_KINDS, Columns
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

    def kept(self, found: Columns) -> Columns:
        """The messages without those that were moved."""
        opaque = found.kinds == BODY_KINDS.index("object")
        if self._queue is None or not opaque.any():
            return found
        moved = self._use.chosen(found.messages, np.flatnonzero(opaque))
        if self._producer is None:
            queue = self._client.named(self._queue, queue=True)
            self._producer = self._client.session.createProducer(queue)
        for message in moved:
            self._producer.send(message)
        _log.warning("%d object messages are moved to %s, unopened", moved.size(), self._queue)
        return found.only(self._use, np.flatnonzero(~opaque))
