"""Certificates are checked: the client library does it, and we leave it on."""

from collections.abc import Iterator

import pytest

from penstock.contracts.errors import PenstockError
from tests.brokers.artemis import Artemis
from tests.brokers.certificates import Authority
from tests.brokers.fixtures import running

from .conftest import Place

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def broker(authority) -> Iterator[Artemis]:
    yield from running(Artemis(tls=authority))


def place(broker: Artemis, trusted: Authority) -> Place:
    trust = f"sslEnabled=true&trustStoreType=PEMCA&trustStorePath={trusted.ca}"
    return Place(
        {
            "jars": ",".join(map(str, broker.client_jars)),
            "url": f"tcp://{broker.tls_address}?{trust}",
            "user": broker.user,
            "password": broker.password,
        }
    )


def test_a_broker_with_a_trusted_certificate_is_used(broker, authority):
    at = place(broker, authority)
    at.write([{"value": b"x"}])
    assert [row["value"] for row in at.take()] == [b"x"]


def test_a_strangers_certificate_is_refused(broker, tmp_path):
    with pytest.raises(PenstockError):
        place(broker, Authority(tmp_path)).source().check()
