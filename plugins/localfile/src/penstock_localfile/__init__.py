"""Files of a local or shared folder as a source and a sink."""

from penstock.contracts import Connector

connector = Connector(
    name="localfile",
    source="penstock_localfile.source:LocalFiles",
    sink="penstock_localfile.sink:LocalFileSink",
    summary="files of a folder, plain or CSV, JSON, Avro, Parquet, XML: read once, written exactly once",
    capabilities=frozenset({"splits", "lag", "live", "limits-bytes", "exactly-once", "typed"}),
)
