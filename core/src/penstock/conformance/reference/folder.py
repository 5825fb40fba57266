"""The reference connector for a replayable source and a sink: what an entry point names."""

from __future__ import annotations

from penstock.conformance.reference.folder_sink import FolderSink
from penstock.conformance.reference.folder_source import FolderSource
from penstock.contracts import Connector

connector = Connector(
    name="folder",
    source=FolderSource,
    sink=FolderSink,
    summary="A folder of segment files.",
    capabilities={
        "splits",
        "ordered-keys",
        "event-time",
        "lag",
        "live",
        "limits-bytes",
        "headers",
        "keys",
        "exactly-once",
        "reconnects",
    },
)
