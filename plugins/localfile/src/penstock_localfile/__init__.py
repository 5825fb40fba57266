"""Files of a local or shared folder as a source and a sink."""

from penstock.contracts import Connector
from penstock_localfile.sink import LocalFileSink
from penstock_localfile.source import LocalFiles

__all__ = ["LocalFileSink", "LocalFiles", "connector"]

connector = Connector(
    name="localfile",
    source=LocalFiles,
    sink=LocalFileSink,
    summary="files of a folder, plain or CSV, JSON, Avro, Parquet, XML: read once, written exactly once",
    capabilities=frozenset({"splits", "lag", "live", "limits-bytes", "exactly-once"}),
)
