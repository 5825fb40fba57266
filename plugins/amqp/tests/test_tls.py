"""TLS is verified, always."""

import pytest

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
