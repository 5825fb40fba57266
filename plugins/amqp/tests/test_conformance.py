"""The suite, against a real RabbitMQ that it may kill."""

import pytest

from penstock_amqp.conformance import TestAmqp
from tests.brokers.suites import rabbitmq as penstock_server

__all__ = ["TestAmqp", "penstock_server"]
pytestmark = pytest.mark.server
