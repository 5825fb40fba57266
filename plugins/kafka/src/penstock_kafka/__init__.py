"""Apache Kafka as a source and a sink."""

from penstock_kafka.connector import connector
from penstock_kafka.sink import KafkaSink
from penstock_kafka.source import KafkaSource

__all__ = ["KafkaSink", "KafkaSource", "connector"]
