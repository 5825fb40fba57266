"""What the entry point names; imports no client library."""

from penstock.contracts import Connector
from penstock_kafka.sink import KafkaSink
from penstock_kafka.source import KafkaSource

connector = Connector(
    name="kafka",
    source=KafkaSource,
    sink=KafkaSink,
    summary="Apache Kafka topics, through librdkafka",
    capabilities={
        "splits",
        "ordered-keys",
        "event-time",
        "lag",
        "live",
        "reconnects",
        "headers",
        "keys",
        "exactly-once",
    },
)
