"""What the entry point names. It names classes by their place: listing imports none of them."""

from __future__ import annotations

from penstock.contracts import Connector

connector = Connector(
    name="desk",
    queue=True,
    source="penstock_desk.queue:DeskSource",
    summary="A desk: messages in one SQLite file.",
    capabilities={"event-time", "headers", "keys", "lag", "live"},
)
