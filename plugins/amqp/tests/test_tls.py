"""TLS is verified, always."""

import pytest

from penstock.contracts import Context
from penstock.contracts.errors import EphemeralReadError, ReadError
from penstock_amqp.source import AmqpSource
from tests.brokers.certificates import Authority
from tests.brokers.fixtures import running
from tests.brokers.rabbitmq import RabbitMQ

from .conftest import Place

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority):
    yield from running(RabbitMQ(tls=authority))


def source(broker, **options):
    host, _, port = broker.tls_address.rpartition(":")
    return AmqpSource(queue=(Place(broker).queue,), hosts=(f"{host}:{port}",), tls=True, **options)


def test_a_trusted_certificate_is_taken(broker, authority):
    source(broker, ca=str(authority.ca)).check()


def test_an_unknown_authority_is_refused(broker):
    with pytest.raises(ReadError, match="not trusted") as failed:
        source(broker).check()
    assert not isinstance(failed.value, EphemeralReadError)


def test_another_name_is_refused(broker, authority):
    with pytest.raises(ReadError, match="not trusted"):
        source(broker, ca=str(authority.ca), server_name="other.example").check()


@pytest.fixture(scope="module")
def by_certificate(authority):
    """A broker that knows its users by the names in their certificates."""
    settings = {
        "ssl_options.verify": "verify_peer",
        "ssl_options.fail_if_no_peer_cert": "true",
        "auth_mechanisms.1": "EXTERNAL",
        "auth_mechanisms.2": "PLAIN",  # the fixture asks over the other port
        "ssl_cert_login_from": "common_name",
    }
    plugins = ("rabbitmq_auth_mechanism_ssl",)
    for broker in running(RabbitMQ(settings, plugins, tls=authority)):
        broker.ctl("add_user", "worker", "never used")
        broker.ctl("clear_password", "worker")
        broker.ctl("set_permissions", "worker", ".*", ".*", ".*")
        yield broker


def external(broker, issued, authority):
    files = {"certificate": str(issued.certificate), "key": str(issued.key)}
    return source(broker, ca=str(authority.ca), sasl="EXTERNAL", **files)


def test_a_client_certificate_logs_its_user_in(by_certificate, authority):
    consumer = external(by_certificate, authority.issue("worker"), authority).consumer(Context(), 0)
    try:
        assert "worker" in by_certificate.ctl("list_connections", "user").split()
    finally:
        consumer.close()


def test_a_client_certificate_of_nobody_is_refused(by_certificate, authority):
    with pytest.raises(ReadError) as failed:
        external(by_certificate, authority.issue("stranger"), authority).check()
    assert not isinstance(failed.value, EphemeralReadError)


def test_a_client_certificate_of_a_strange_authority_is_refused(
    by_certificate, authority, tmp_path
):
    issued = Authority(tmp_path / "strange").issue("worker")
    with pytest.raises(ReadError):
        external(by_certificate, issued, authority).check()
