"""The reference connector over a socket broker passes the suite."""

import pytest

from penstock.conformance import Case, ConnectorSuite
from penstock.conformance.reference.process import BrokerProcess
from penstock.conformance.reference.sockets import connector as sockets


class TestSockets(ConnectorSuite):
    connector = sockets

    @pytest.fixture
    def case(self, tmp_path):
        with BrokerProcess(tmp_path / "broker", password="open sesame") as broker:
            place = {"port": broker.port, "password": "open sesame"}
            wrong = {"password": "open barley"}
            yield Case(source=place, sink=place, server=broker, wrong_credentials=wrong)
