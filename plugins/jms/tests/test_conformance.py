"""The suite, against a real Artemis that it may kill."""

import pytest

from penstock_jms.conformance import TestJms
from tests.brokers.suites import artemis as penstock_server

__all__ = ["TestJms", "penstock_server"]
pytestmark = pytest.mark.server
