"""The fixtures keep what they promise: a real server, the same data after a kill, silence when frozen."""

import paramiko
import pika
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from penstock.conformance.processes import alive
from penstock.conformance.waiting import until
from tests.brokers import fixtures
from tests.brokers.openssh import OpenSSH
from tests.brokers.server import Failed, Missing, Server, program

pytestmark = pytest.mark.server


def test_kafka_keeps_its_records_over_a_kill(kafka):
    topic = kafka.create_topic("servers-kill", partitions=2)
    producer = Producer({"bootstrap.servers": kafka.address, "acks": "all"})
    for number in range(100):
        producer.produce(topic, str(number))
    assert producer.flush(20) == 0

    kafka.kill()
    assert not kafka.pids
    kafka.restart()

    consumer = Consumer(
        {
            "bootstrap.servers": kafka.address,
            "group.id": "servers-kill",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        seen = []

        def all_read():
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                seen.append(int(message.value()))
            return len(seen) >= 100

        until(all_read, within=30, why="all records are read again", every=0)
    finally:
        consumer.close()
    assert sorted(seen) == list(range(100))


def test_a_frozen_kafka_answers_nothing_until_thawed(kafka):
    client = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    kafka.freeze()
    try:
        with pytest.raises(KafkaException):
            client.list_topics(timeout=1)
    finally:
        kafka.thaw()
    assert client.list_topics(timeout=20).brokers


def test_rabbitmq_keeps_persistent_messages_over_a_kill(rabbitmq):
    with rabbitmq.connection() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("servers-kill", durable=True)
        channel.basic_publish(
            "", "servers-kill", b"kept", pika.BasicProperties(delivery_mode=2), mandatory=True
        )

    rabbitmq.kill()
    assert not rabbitmq.pids
    rabbitmq.restart()

    with rabbitmq.connection() as connection:
        channel = connection.channel()
        assert channel.basic_get("servers-kill", auto_ack=True)[2] == b"kept"


def test_artemis_comes_back_on_the_same_port(artemis):
    before = artemis.address
    artemis.kill()
    assert not artemis.running
    assert not artemis.ready()
    artemis.restart()
    assert artemis.running
    assert artemis.ready()
    assert artemis.address == before


def sftp(server: OpenSSH) -> paramiko.SSHClient:
    client = paramiko.SSHClient()
    client.load_host_keys(str(server.known_hosts))
    client.connect(
        "127.0.0.1",
        server.port,
        server.user,
        key_filename=str(server.private_key),
        allow_agent=False,
        look_for_keys=False,
    )
    return client


def test_sshd_serves_files_to_who_has_the_key(sshd):
    with sftp(sshd) as client, client.open_sftp() as session:
        with session.open(str(sshd.files / "hello.txt"), "w") as file:
            file.write("hello")
        assert "hello.txt" in session.listdir(str(sshd.files))
    assert (sshd.files / "hello.txt").read_text() == "hello"


def test_sshd_with_a_new_host_key_is_a_stranger(fresh_sshd):
    fresh_sshd.change_host_key(known=False)
    fresh_sshd.restart()
    with pytest.raises(paramiko.SSHException, match="does not match"):
        sftp(fresh_sshd)


class Broken(Server):
    name = "broken"
    patience = 0.5

    def __init__(self, script: str) -> None:
        super().__init__()
        self.script = script

    def prepare(self) -> None: ...

    def launch(self) -> None:
        self.spawn(["sh", "-c", self.script])

    def ready(self) -> bool:
        return False


def test_a_server_that_ends_while_starting_shows_its_log():
    server = Broken("echo no such setting; exit 3")
    with pytest.raises(Failed, match=r"ended with 3 .*\n.*\nno such setting"):
        server.start()
    server.stop()


def test_a_server_that_never_answers_is_killed_with_its_children():
    server = Broken("sleep 600 & echo $! > child; wait")
    with pytest.raises(Failed, match="until broken answers"):
        server.start()
    assert not alive(int((server.folder / "child").read_text()))
    server.stop()
    assert not server.folder.exists()


def test_a_missing_program_says_which_package_has_it():
    with pytest.raises(Missing, match="apt-get install no-such-package"):
        program("no-such-program", "no-such-package")


class Absent(Broken):
    def prepare(self) -> None:
        raise Missing("not here: apt-get install it")


@pytest.mark.parametrize(
    ("variables", "outcome"),
    [
        ({}, pytest.skip.Exception),
        ({"CI": "true"}, pytest.fail.Exception),
        ({"PENSTOCK_REQUIRE_SERVERS": "1"}, pytest.fail.Exception),
    ],
)
def test_a_missing_server_skips_here_and_fails_where_it_is_required(
    monkeypatch, variables, outcome
):
    for name in ("CI", "PENSTOCK_REQUIRE_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(outcome, match="apt-get install it"):
        next(fixtures.running(Absent("")))
