"""JMS queues and topics of any vendor as a source and a sink."""

from penstock.contracts import Connector

connector = Connector(
    name="jms",
    source="penstock_jms.source:JmsSource",
    queue=True,
    sink="penstock_jms.sink:JmsSink",
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
