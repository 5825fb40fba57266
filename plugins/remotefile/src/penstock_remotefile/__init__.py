"""Files on other systems as a source and a sink: SFTP, HTTP, and what fsspec knows."""

from penstock.contracts import Connector
from penstock_remotefile.sink import RemoteFileSink
from penstock_remotefile.source import RemoteFiles

__all__ = ["RemoteFileSink", "RemoteFiles", "connector"]

connector = Connector(
    name="remotefile",
    source=RemoteFiles,
    sink=RemoteFileSink,
    summary="files by SFTP, HTTP(S) or fsspec: listed on one node, fetched on all",
    capabilities=frozenset({"splits", "lag", "live", "limits-bytes", "reconnects", "exactly-once"}),
)
