"""JMS queues and topics of any vendor as a source and a sink."""

from penstock.contracts import Connector
from penstock_jms.sink import JmsSink
from penstock_jms.source import JmsSource

__all__ = ["JmsSink", "JmsSource", "connector"]

connector = Connector(
    name="jms",
    source=JmsSource,
    sink=JmsSink,
    summary="JMS queues and durable subscriptions, over any vendor's client library",
    capabilities=frozenset(
        {
            "event-time",
            "exactly-once",
            "headers",
            "keys",
            "lag",
            "limits-bytes",
            "live",
            "reconnects",
        }
    ),
)
