"""What the entry point names. It imports no client library: listing what is installed loads it."""

from __future__ import annotations

from penstock_desk.queue import DeskSource

from penstock.contracts import Connector

connector = Connector(
    name="desk",
    source=DeskSource,
    summary="A desk: messages in one SQLite file.",
    capabilities={"event-time", "headers", "keys", "lag", "live"},
)
