"""The suite, against a real Artemis that it may kill."""

import uuid
from collections.abc import Iterator

import pytest

from penstock.conformance import Case, ConnectorSuite
from tests.brokers.artemis import Artemis
from tests.brokers.fixtures import running

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def broker() -> Iterator[Artemis]:
    server = Artemis()
    server.password = f"secret-{uuid.uuid4().hex}"
    (server.folder / "password").write_text(server.password)
    yield from running(server)


class TestJms(ConnectorSuite):
    connector = "jms"

    @pytest.fixture
    def case(self, broker):
        place = {
            "jars": ",".join(map(str, broker.client_jars)),
            "url": broker.url,
            "user": broker.user,
            "password": f"${{file:{broker.folder}/password}}",
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
