"""The reference connector over a socket broker passes the suite."""

import pytest

from penstock.conformance import ConnectorSuite
from penstock.conformance.reference.cases import sockets_case
from penstock.conformance.reference.sockets import connector as sockets


class TestSockets(ConnectorSuite):
    connector = sockets

    @pytest.fixture
    def case(self, tmp_path):
        with sockets_case(tmp_path) as case:
            yield case
