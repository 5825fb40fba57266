"""The suite, against a real Kafka that it may kill, over TLS and SASL."""

import pytest

from penstock_kafka.conformance import TestKafka
from tests.brokers.suites import kafka as penstock_server

__all__ = ["TestKafka", "penstock_server"]
pytestmark = pytest.mark.server
