"""The suite, against a real Artemis that it may kill."""

import os
import uuid
from collections.abc import Iterator
from typing import ClassVar

import pytest

from penstock.conformance import Case, ConnectorSuite
from tests.brokers.artemis import Artemis
from tests.brokers.fixtures import running

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def broker() -> Iterator[Artemis]:
    server = Artemis()
    server.password = f"secret-{uuid.uuid4().hex}"
    os.environ["PENSTOCK_TEST_JMS_PASSWORD"] = server.password
    yield from running(server)
    del os.environ["PENSTOCK_TEST_JMS_PASSWORD"]


class TestJms(ConnectorSuite):
    connector = "jms"
    waivers: ClassVar = {
        "SNK-05": "a committed JMS transaction cannot be taken back: a share is there once its "
        "task has closed",
    }

    @pytest.fixture
    def case(self, broker):
        place = {
            "jars": ",".join(map(str, broker.client_jars)),
            "url": broker.url,
            "user": broker.user,
            "password": "${env:PENSTOCK_TEST_JMS_PASSWORD}",
            "queue": f"q-{uuid.uuid4().hex}",
            "event_time_property": "sent_at",
        }
        return Case(
            source=place,
            sink={**place, "duplicate_detection": "artemis"},
            server=broker,
            proof="real server",
            wrong_credentials={"password": "wrong-canary"},
            contradictory={"topic": "t"},
        )
