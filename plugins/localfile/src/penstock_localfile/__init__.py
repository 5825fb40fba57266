"""Files of a local or shared folder as a source and a sink."""

from penstock.contracts import Connector
from penstock_localfile.sink import LocalFileSink
from penstock_localfile.source import LocalFiles

__all__ = ["LocalFileSink", "LocalFiles", "connector"]

connector = Connector(
    name="localfile",
    source=LocalFiles,
    sink=LocalFileSink,
    summary="files of a folder: lines or whole files, seen once, written exactly once",
    capabilities=frozenset({"splits", "lag", "live", "limits-bytes", "exactly-once"}),
)
