"""Files on other systems as a source and a sink: SFTP, HTTP, and what fsspec knows."""

from penstock.contracts import Connector

connector = Connector(
    name="remotefile",
    source="penstock_remotefile.source:RemoteFiles",
    sink="penstock_remotefile.sink:RemoteFileSink",
    summary="files by SFTP, HTTP(S) or fsspec: listed on one node, fetched on all",
    capabilities=frozenset({"splits", "lag", "live", "limits-bytes", "reconnects", "exactly-once"}),
)
