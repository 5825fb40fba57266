"""Client libraries we know by name: what to fetch, and which class makes connections."""

from __future__ import annotations

from attrs import frozen


@frozen
class Vendor:
    """One vendor's client library.

    Attributes:
        name: As people call the broker.
        factory: The class of its connection factory.
        coordinates: Where Maven Central has it, or where it comes from.
    """

    name: str
    factory: str
    coordinates: str


VENDORS = (
    Vendor(
        "ActiveMQ Artemis (Jakarta)",
        "org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory",
        "org.apache.activemq:artemis-jakarta-client-all:2.42.0",
    ),
    Vendor(
        "ActiveMQ Artemis (javax)",
        "org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory",
        "org.apache.activemq:artemis-jms-client-all:2.42.0",
    ),
    Vendor(
        "ActiveMQ Classic",
        "org.apache.activemq.ActiveMQConnectionFactory",
        "org.apache.activemq:activemq-client:6.1.4, or :5.18.6 for javax, with what it depends on",
    ),
    Vendor(
        "IBM MQ (Jakarta)",
        "com.ibm.mq.jakarta.jms.MQConnectionFactory",
        "com.ibm.mq:com.ibm.mq.jakarta.client:9.4.1.0",
    ),
    Vendor(
        "IBM MQ (javax)",
        "com.ibm.mq.jms.MQConnectionFactory",
        "com.ibm.mq:com.ibm.mq.allclient:9.4.1.0",
    ),
    Vendor(
        "Solace",
        "com.solacesystems.jms.SolConnectionFactoryImpl",
        "com.solacesystems:sol-jms:10.25.0, with what it depends on",
    ),
    Vendor(
        "any AMQP 1.0 broker (Qpid JMS)",
        "org.apache.qpid.jms.JmsConnectionFactory",
        "org.apache.qpid:qpid-jms-client:2.6.1, with what it depends on",
    ),
    Vendor(
        "RabbitMQ",
        "com.rabbitmq.jms.admin.RMQConnectionFactory",
        "com.rabbitmq.jms:rabbitmq-jms:3.4.0, with what it depends on",
    ),
    Vendor(
        "Oracle AQ",
        "oracle.jms.AQjmsConnectionFactory",
        "com.oracle.database.messaging:aqapi:21.3.0.0, with the Oracle JDBC driver",
    ),
    Vendor(
        "TIBCO EMS",
        "com.tibco.tibjms.TibjmsConnectionFactory",
        "tibjms.jar of the product's own lib folder",
    ),
)


def shopping_list() -> str:
    """Where the jars of common brokers are found, for an error that misses them."""
    return "; ".join(f"{vendor.name}: {vendor.coordinates}" for vendor in VENDORS)
