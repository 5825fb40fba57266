"""What a connector distribution hands to the core through its entry point."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from penstock.contracts.errors import PluginError

if TYPE_CHECKING:
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
        source: A `ReplayableSource` or `QueueSource` class, if it can be read: the class, or
            better its place, `"package.module:Class"`, imported when it is first asked for.
        sink: A `Sink` class, if it can be written; a class or its place.
        queue: Whether the source is a `QueueSource`; needed only where `source` is a place.
        summary: One line for `penstock connectors`.
        capabilities: Abilities beyond the shape, from `CAPABILITIES`; conformance holds it to
            them.
        contracts: The major version of the contracts it was written for.

    The module that defines it must import no client library and, to keep the listing quick,
    needs not even Arrow: listing what is installed loads it.
    """

    name: str
    _source: type[ReplayableSource] | type[QueueSource] | str | None = field(
        default=None, alias="source"
    )
    _sink: type[Sink] | str | None = field(default=None, alias="sink")
    summary: str = ""
    capabilities: frozenset[str] = field(default=frozenset(), converter=_names)
    contracts: int = CONTRACTS
    queue: bool = field(default=False)

    @property
    def source(self) -> type[ReplayableSource] | type[QueueSource] | None:
        """The class to read with; raises PluginError if its place cannot be imported."""
        found: type[ReplayableSource] | type[QueueSource] | None = self._at(self._source)
        if isinstance(self._source, str):
            self._check_queue(found)
        return found

    @property
    def sink(self) -> type[Sink] | None:
        """The class to write with; raises like `source`."""
        found: type[Sink] | None = self._at(self._sink)
        return found

    def can(self) -> list[str]:
        """What it can do, in words for a table; imports no place."""
        words = []
        if self._source is not None:
            words.append("queue" if self._is_queue() else "source")
        if self._sink is not None:
            words.append("sink")
        return words + sorted(self.capabilities)

    def _is_queue(self) -> bool:
        if isinstance(self._source, str):
            return self.queue
        from penstock.contracts.queue import QueueSource

        return self._source is not None and issubclass(self._source, QueueSource)

    def _check_queue(self, found: Any) -> None:
        from penstock.contracts.queue import QueueSource

        if issubclass(found, QueueSource) != self.queue:
            raise PluginError(
                "the plugin declares another shape than its source has",
                who=self.name,
                expected=f"queue={not self.queue}, since {self._source} is "
                f"{'no' if self.queue else 'a'} QueueSource",
                got=f"queue={self.queue}",
                fix="report it to the plugin's author",
            )

    def _at(self, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        module, _, name = given.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except Exception as error:
            raise PluginError(
                f"the plugin fails to load: {type(error).__name__}: {error}",
                who=self.name,
                expected=f"{given} can be imported",
                fix="reinstall or upgrade the connector, or report it to its author",
            ) from error


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
