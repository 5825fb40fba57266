"""The servers' TLS listeners: who trusts the authority gets in, who trusts another does not."""

import socket
import ssl

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.brokers.artemis import Artemis
from tests.brokers.certificates import Authority
from tests.brokers.fixtures import running
from tests.brokers.kafka import Kafka
from tests.brokers.rabbitmq import RabbitMQ

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("stranger"))


def greet(port, ca, host="127.0.0.1"):
    trusting = ssl.create_default_context(cafile=ca)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        trusting.wrap_socket(plain, server_hostname=host) as secured,
    ):
        return secured.version()


@pytest.mark.parametrize("server", [RabbitMQ, Artemis])
def test_only_who_trusts_the_authority_and_the_name_connects(server, authority, stranger):
    for broker in running(server(tls=authority)):
        assert greet(broker.tls_port, authority.ca).startswith("TLSv1")
        with pytest.raises(ssl.SSLCertVerificationError, match=r"self-signed|unable to get"):
            greet(broker.tls_port, stranger.ca)
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            greet(broker.tls_port, authority.ca, host="elsewhere.example")


def test_kafka_over_tls_and_with_a_password(authority, stranger):
    def topics(kafka, **settings):
        client = AdminClient({"log_level": 0, "ssl.ca.location": str(authority.ca), **settings})
        return client.list_topics(timeout=10)

    for kafka in running(Kafka(tls=authority)):
        tls = {"bootstrap.servers": kafka.tls_address, "security.protocol": "SSL"}
        assert topics(kafka, **tls).brokers
        with pytest.raises(KafkaException):
            topics(kafka, **tls | {"ssl.ca.location": str(stranger.ca)})

        sasl = {
            "bootstrap.servers": kafka.sasl_address,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": kafka.user,
            "sasl.password": kafka.password,
        }
        assert topics(kafka, **sasl).brokers
        with pytest.raises(KafkaException):
            topics(kafka, **sasl | {"sasl.password": "wrong"})
