"""The suite, against a real RabbitMQ that it may kill."""

import pytest

from penstock.conformance import Case, ConnectorSuite
from tests.brokers.fixtures import running
from tests.brokers.rabbitmq import RabbitMQ

from .conftest import Place

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def broker():
    yield from running(RabbitMQ())


class TestAmqp(ConnectorSuite):
    connector = "amqp"

    @pytest.fixture
    def case(self, broker):
        made = Place(broker)
        at = {"hosts": broker.address, "user": broker.user, "password": broker.password}
        return Case(
            source={**at, "queue": made.queue},
            sink={**at, "exchange": made.exchange},
            read_back=made.peek,
            server=broker,
            proof="real server",
            wrong_credentials={"password": "wrong-canary"},
            contradictory={"url": "amqp://localhost/"},
        )
