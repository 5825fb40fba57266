"""What a connector distribution hands to the core through its entry point."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from penstock.contracts.queue import QueueSource
from penstock.contracts.sink import Sink
from penstock.contracts.source import ReplayableSource

CONTRACTS = 1
"""The major version of the contracts this core speaks."""


def _names(given: Iterable[str]) -> frozenset[str]:
    return frozenset(given)


@frozen
class Connector:
    """The object an entry point of the group `penstock.connectors` names.

    Attributes:
        name: As users write it; equal to the entry point's name.
        source: A `ReplayableSource` or `QueueSource` class, if it can be read.
        sink: A `Sink` class, if it can be written.
        summary: One line for `penstock connectors`.
        capabilities: Abilities beyond the shape, from `CAPABILITIES`; conformance holds it to
            them.
        contracts: The major version of the contracts it was written for.

    The module that defines it must import no client library: listing what is installed loads it.
    """

    name: str
    source: type[ReplayableSource] | type[QueueSource] | None = None
    sink: type[Sink] | None = None
    summary: str = ""
    capabilities: frozenset[str] = field(default=frozenset(), converter=_names)
    contracts: int = CONTRACTS

    def can(self) -> list[str]:
        """What it can do, in words for a table."""
        words = []
        if self.source is not None:
            words.append("queue" if issubclass(self.source, QueueSource) else "source")
        if self.sink is not None:
            words.append("sink")
        return words + sorted(self.capabilities)


CAPABILITIES: dict[str, str] = {
    "splits": "a source that can be read by several tasks at once",
    "ordered-keys": "records of one key keep their order, also after a restart",
    "event-time": "event_time is filled from the record",
    "lag": "the source tells how much is not yet read",
    "live": "data that arrives while a stream runs is seen",
    "limits-bytes": "byte limits are honoured besides row limits",
    "reconnects": "a lost server is found again without a restart",
    "headers": "headers survive",
    "keys": "keys survive",
    "exactly-once": "the sink's promise is idempotent",
    "typed": "rows have columns of their own, not only bytes",
}
