"""A second broker: ActiveMQ Classic, whose client knows JMS 1.1 in the namespace javax.jms."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.contracts.errors import WriteError
from tests.brokers import jars
from tests.brokers.fixtures import running
from tests.brokers.ports import answers, free_port
from tests.brokers.server import Server, program

from .conftest import Place, headers

pytestmark = pytest.mark.server

BROKER = ("org.apache.activemq:activemq-broker:5.18.6",)
CLIENT = ("org.apache.activemq:activemq-client:5.18.6",)
SOURCE = Path(__file__).with_name("ClassicBroker.java")


class Classic(Server):
    name = "activemq-classic"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> None:
        javac = program("javac", jars.JDK, str(Path(jars.java()).resolve().parent))
        classes = str(self.folder / "classes")
        self.run([javac, "-nowarn", "-cp", jars.class_path(BROKER), "-d", classes, str(SOURCE)])

    def launch(self) -> None:
        path = os.pathsep.join([str(self.folder / "classes"), jars.class_path(BROKER)])
        self.spawn([jars.java(), "-Xmx128m", "-cp", path, "ClassicBroker", str(self.port)])

    def ready(self) -> bool:
        return answers(self.port) and "ready" in self.log.read_text(errors="replace")


@pytest.fixture(scope="module")
def classic() -> Iterator[Classic]:
    yield from running(Classic())


@pytest.fixture
def place(classic) -> Place:
    client = ",".join(map(str, jars.fetch(CLIENT)))
    return Place({"jars": client, "url": f"tcp://{classic.address}"})


@pytest.mark.parametrize("session", ["transacted", "client"])
def test_messages_go_through_a_jms_1_1_client(place, session):
    rows = [
        {"value": b"\x00\xff", "key": b"k", "headers": {"a": b"1", "n": b"5"}},
        {"value": b"text", "headers": {"jms.body": b"text", "JMSCorrelationID": b"c"}},
        {"value": b'{"n":5}', "headers": {"jms.body": b"map"}},
        {"value": b"", "headers": {}},
    ]
    assert place.write(rows).rows == 4
    consumer = place.consumer(session=session)
    assert consumer.depth() is None
    place.lease(consumer).release()
    lease = place.lease(consumer)
    came = lease.rows.to_pylist()
    assert [row["value"] for row in came] == [row["value"] for row in rows]
    assert lease.deliveries.to_pylist() == [2] * 4
    for sent, row in zip(rows, came, strict=True):
        assert headers(row) == {**sent["headers"], "JMSXDeliveryCount": b"2"}
        assert row["key"] == sent.get("key")
    lease.acknowledge()
    consumer.close()
    assert place.take() == []


def test_duplicate_detection_is_refused_where_the_broker_has_none(place):
    with pytest.raises(WriteError, match="no duplicate detection") as caught:
        place.sink(duplicate_detection="artemis").check()
    assert "ActiveMQConnectionFactory" in caught.value.got
