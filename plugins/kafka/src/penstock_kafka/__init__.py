"""Apache Kafka as a source and a sink."""

from penstock.contracts import Connector

connector = Connector(
    name="kafka",
    source="penstock_kafka.source:KafkaSource",
    sink="penstock_kafka.sink:KafkaSink",
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
