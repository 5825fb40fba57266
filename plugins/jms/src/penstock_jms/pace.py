"""How much to fetch and to take of messages that the broker has delivered before.

Artemis counts as delivered all that it had sent to a client that died, read or not, and moves a
message to its own dead letters after ten deliveries. A window of thousands of small messages that
is lost ten times would go there whole, healthy as it is. So what comes again and again is taken in
ever smaller leases, without fetching ahead: only who travels in a lease that dies is counted.
"""

from __future__ import annotations

import logging
from typing import Any

from penstock.contracts import Limit
from penstock.contracts.queue import OFTEN, cautious
from penstock_jms.client import Client
from penstock_jms.failures import names
from penstock_jms.options import Connecting

_log = logging.getLogger("penstock.jms")

_AHEAD = 8 * 2**20  # bytes that come in while Spark is at a batch, and the receiver with it
_LEAST = 2**14
_MESSAGE = 2**10  # about what a message takes
_SETTING = "consumerwindowsize"
_COUNT = "JMSXDeliveryCount"


class Pace:
    """What one consumer may fetch and take now.

    Attributes:
        before: How often the next messages were delivered, as far as is known.
    """

    def __init__(self, options: Connecting) -> None:
        said = {name.lower() for name in options.properties}
        self._told = _SETTING in said or _SETTING in (options.url or "").lower()
        self._fetch: int | None = None
        self.before = 0

    def window(self, limit: Limit) -> None:
        """Fetch while a batch runs, but not much more than may be held, nor than the user says."""
        sizes = [limit.bytes, None if limit.rows is None else limit.rows * _MESSAGE]
        if not self._told:
            self._fetch = max(_LEAST, min([_AHEAD, *(size for size in sizes if size is not None)]))

    @property
    def careful(self) -> bool:
        """Whether the next messages have had more deliveries than an accident or two."""
        return self.before >= OFTEN

    @property
    def fetch(self) -> int | None:
        """How many bytes the client shall fetch ahead; None: what it is set to."""
        return 0 if self.careful else self._fetch

    def limited(self, limit: Limit) -> Limit:
        """What to take at once."""
        if not self.careful:
            return limit
        most = _AHEAD // _MESSAGE if limit.rows is None else limit.rows
        return Limit(rows=cautious(most, self.before), bytes=limit.bytes)


def head(client: Client, selector: str | None) -> int | None:
    """How often the first message in a queue was delivered; None if it cannot be seen.

    Asked while the client has no consumer that fetches ahead: what it has fetched is not seen.
    """
    chosen = () if selector is None else (selector,)
    try:
        browser = client.session.createBrowser(client.destination, *chosen)
        try:
            found = browser.getEnumeration()
            if not found.hasMoreElements():
                return None
            first: Any = found.nextElement()
            return int(first.getIntProperty(_COUNT))
        finally:
            browser.close()
    except client.exceptions as error:
        if "JMSSecurityException" not in names(error):
            raise
        _log.info("the user may not browse the queue: %s", error)
        return None
