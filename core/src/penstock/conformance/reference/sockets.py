"""The reference connector for a queue source: what an entry point names."""

from __future__ import annotations

from penstock.conformance.reference.socket_sink import SocketSink
from penstock.conformance.reference.socket_source import SocketSource
from penstock.contracts import Connector

connector = Connector(
    name="sockets",
    source=SocketSource,
    sink=SocketSink,
    summary="A queue of a small broker on a local socket.",
    capabilities={
        "event-time",
        "exactly-once",
        "headers",
        "keys",
        "lag",
        "limits-bytes",
        "live",
        "reconnects",
    },
)
