"""What the entry points of the core's own connectors name; imports no Arrow."""

from penstock.contracts.plugin import Connector

generator = Connector(
    name="generator",
    source="penstock.connectors.generator:GeneratorSource",
    summary="Seeded, made-up records; bounded or rated.",
    capabilities={"splits", "event-time", "lag", "limits-bytes", "keys"},
)

stdout = Connector(
    name="stdout",
    sink="penstock.connectors.stdout:StdoutSink",
    summary="Prints records, one line each.",
)
