"""The servers as the conformance suites take them: one for each test file, and they may kill it.

A test file imports one of these fixtures as `penstock_server`.
"""

import uuid
from collections.abc import Iterator

import pytest

from penstock.conformance import Server
from tests.brokers.artemis import Artemis
from tests.brokers.certificates import Authority
from tests.brokers.fixtures import running
from tests.brokers.kafka import Kafka
from tests.brokers.openssh import OpenSSH
from tests.brokers.rabbitmq import RabbitMQ


@pytest.fixture(scope="module")
def kafka(tmp_path_factory) -> Iterator[Server]:
    """Over TLS and SASL."""
    for broker in running(Kafka(tls=Authority(tmp_path_factory.mktemp("certificates")))):
        options = {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": broker.user,
            "kafka.sasl.password": broker.password,
            "kafka.ssl.ca.location": str(broker.tls.ca),
        }
        yield Server(address=broker.sasl_address, options=options, breakable=broker)


def a_secret() -> str:
    """Long, and said nowhere else: the suites search what Spark leaves for it."""
    return f"secret-{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[Server]:
    broker = RabbitMQ()
    broker.user, broker.password = "conformance", a_secret()
    broker.settings = {"default_user": broker.user, "default_pass": broker.password}
    for _ in running(broker):
        yield Server(address=broker.url, breakable=broker)


@pytest.fixture(scope="module")
def artemis() -> Iterator[Server]:
    broker = Artemis()
    broker.password = a_secret()
    (broker.folder / "password").write_text(broker.password)
    for _ in running(broker):
        options = {
            "jars": ",".join(map(str, broker.client_jars)),
            "user": broker.user,
            "password": f"${{file:{broker.folder}/password}}",
        }
        yield Server(address=broker.url, options=options, breakable=broker)


@pytest.fixture(scope="module")
def sshd() -> Iterator[Server]:
    for server in running(OpenSSH()):
        passphrase = a_secret()
        server.encrypt_key(passphrase)
        options = {
            "private_key": str(server.private_key),
            "passphrase": passphrase,
            "known_hosts": str(server.known_hosts),
        }
        address = f"sftp://{server.user}@{server.address}{server.files}"
        yield Server(address=address, options=options, breakable=server)
