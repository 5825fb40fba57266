"""Kafka to Kafka with faults on the way: lost 0, duplicated 0 for a reader of committed records."""

import contextlib
import json
import random
import threading
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.conformance.kill import Driver
from penstock.conformance.oracle import Oracle
from penstock.conformance.waiting import until
from tests.brokers.fixtures import running
from tests.brokers.kafka import Kafka
from tests.brokers.ports import free_port
from tests.faults.proxy import Proxy

pytestmark = [
    pytest.mark.faults,
    pytest.mark.server,
    pytest.mark.spark,
    pytest.mark.timeout(900),
]
DRIVER = Path(__file__).parent / "kafka_driver.py"
PARTITIONS = 2
POINTS = ["offsets-logged", "mid-write", "tasks-written", "sink-finished", "sinks-finished"]


class Rig:
    """N ids in one topic, a driver that copies them to another, and who counts."""

    def __init__(self, folder, broker, proxy, oracle, *, batches, timeout=60.0):
        self.folder, self.broker, self.proxy, self.oracle = folder, broker, proxy, oracle
        name = uuid.uuid4().hex[:8]
        self.source = broker.create_topic(f"from-{name}", PARTITIONS)
        self.target = broker.create_topic(f"to-{name}", PARTITIONS)
        self.spec = {
            "servers": f"127.0.0.1:{proxy.port}",
            "source": self.source,
            "target": self.target,
            "max_rows": -(-oracle.size // batches),
            "transaction_timeout": timeout,
            "checkpoint": str(folder / "state"),
        }
        producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 20})
        for number, each in enumerate(oracle.ids):
            producer.produce(self.source, each, partition=number % PARTITIONS)
            producer.poll(0)
        assert producer.flush(60) == 0

    def driver(self, strikes):
        return Driver(
            [DRIVER, json.dumps(self.spec)],
            folder=self.folder / "killed",
            strikes=strikes,
            standby=True,
        )

    def written(self):
        """How many offsets the target has; markers of transactions count too."""
        return sum(self._ends(IsolationLevel.READ_UNCOMMITTED))

    def _ends(self, level):
        request = {TopicPartition(self.target, p): OffsetSpec.latest() for p in range(PARTITIONS)}

        def ask():
            # Anew each time: after a broker's restart an old one is refused for minutes.
            admin = AdminClient({"bootstrap.servers": self.broker.address, "log_level": 0})
            answer = admin.list_offsets(request, isolation_level=level, request_timeout=20)
            return [future.result(30).offset for future in answer.values()]

        # A broker that has just come back answers with errors that pass.
        return until(ask, within=90, why="the broker tells offsets", ignoring=(KafkaException,))

    def judge(self):
        """Count what a reader of committed records sees, until each partition is quiet."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(self.target, p, 0) for p in range(PARTITIONS)])
        seen, quiet = [], set()
        while len(quiet) < PARTITIONS:
            for message in consumer.consume(5000, 2):
                if message.error() is None:
                    seen.append(message.value().decode())
                    quiet.discard(message.partition())
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    quiet.add(message.partition())
                else:
                    raise AssertionError(message.error())
        consumer.close()
        return self.oracle.judge(seen)

    def run(self, strikes, disturbances=(), within=240):
        """Run the driver to its end through everything; it is started again as often as it falls."""
        driver = self.driver(strikes)
        waiting = sorted(disturbances, key=lambda each: each[0])
        ended = threading.Event()
        done = []

        def disturb():
            for after, act in waiting:
                while not ended.wait(0.1):
                    if self.written() >= after:
                        done.append(act(self))
                        break

        disturber = threading.Thread(target=disturb)
        disturber.start()
        try:
            while True:
                driver.start()
                code = self._end_of_life(driver, within)
                driver.kill()
                if code == 0:
                    break
                assert driver.lives < 3 + 2 * (len(strikes) + len(waiting)), driver.log_tail()
        finally:
            driver.end()
            ended.set()
            disturber.join()
        struck = {each["strike"] for each in driver.struck()}
        assert struck == {str(each) for each in driver.strikes}
        assert done == [True] * len(waiting)
        return len(strikes) + len(waiting)

    def _end_of_life(self, driver, within):
        """Wait for it to end; one that was struck by a freeze is thawed after its transaction."""
        frozen = [each for each in driver.strikes if each.kind == "freeze"]
        thawed = set()
        deadline = time.monotonic() + within

        def over():
            for each in frozen:
                name = str(each)
                if name not in thawed and name in {s["strike"] for s in driver.struck()}:
                    until(self.stable, within=90, why="the broker ends the transaction", every=0.5)
                    thawed.add(name)
                    driver.thaw()
            return not driver.running

        until(over, within=max(1.0, deadline - time.monotonic()), why="the driver ends", every=0.2)
        return driver.wait(within=5)

    def stable(self):
        """Whether no transaction is open in the target."""
        first, second = map(self._ends, IsolationLevel)
        return first == second


def broker_killed(rig):
    rig.broker.kill()
    rig.broker.start()
    return True


def broker_frozen(seconds):
    def act(rig):
        rig.broker.freeze()
        time.sleep(seconds)  # the fault itself, not a wait for something
        rig.broker.thaw()
        return True

    return act


def connections_cut(rig):
    rig.proxy.cut()
    rig.proxy.pass_through()
    return True


def reply_cut(rig):
    return rig.proxy.cut_between_request_and_reply(rig.target.encode()).wait(120)


@pytest.fixture
def make_rig(tmp_path, penstock_seed):
    ending = contextlib.ExitStack()

    def make(size, **options):
        front = free_port()
        servers = running(Kafka(proxied_by=front))
        broker = next(servers)
        ending.callback(next, servers, None)
        proxy = ending.enter_context(Proxy(broker.proxied_port, port=front))
        return Rig(tmp_path, broker, proxy, Oracle(size, penstock_seed), **options)

    with ending:
        yield make


@pytest.fixture
def told(judged):
    """Judge when no transaction is open: what one still holds would be lost to the reader."""

    def tell(rig, faults):
        until(rig.stable, within=90, why="no transaction is open", every=0.5)
        judged("kafka exactly-once", faults, rig.judge())

    return tell


def test_driver_kills_at_named_points_a_worker_kill_and_a_broker_kill(make_rig, told):
    rig = make_rig(5_000, batches=8)
    strikes = ["mid-write@2", "mid-write@9:worker", "tasks-written@4", "sinks-finished@5"]
    told(rig, rig.run(strikes, [(3_000, broker_killed)]))


def test_a_driver_frozen_beyond_the_transaction_timeout_loses_nothing(make_rig, told):
    rig = make_rig(2_000, batches=4, timeout=3.0)
    told(rig, rig.run(["mid-write@3:freeze"]))


@pytest.mark.slow
def test_a_broker_that_is_frozen_for_a_while_loses_nothing(make_rig, told):
    rig = make_rig(2_000, batches=4)
    told(rig, rig.run([], [(600, broker_frozen(10))]))


@pytest.mark.slow
@pytest.mark.timeout(5400)
def test_fifty_faults_and_a_hundred_thousand_ids(make_rig, penstock_seed, told):
    rng = random.Random(penstock_seed)
    rig = make_rig(100_000, batches=100, timeout=10.0)
    kinds = ["tree"] * 10 + ["worker"] * 6 + ["freeze"] * 2
    rng.shuffle(kinds)
    strikes = []
    for number, kind in enumerate(kinds):
        point = rng.choice(POINTS) if kind == "tree" else "mid-write"
        # A batch reaches mid-write twice, the other points once.
        often = (8 if point == "mid-write" else 4) * (number + 1)
        strikes.append(f"{point}@{often}:{kind}")
    acts = [broker_killed] * 4 + [broker_frozen(90)] * 2 + [connections_cut] * 13 + [reply_cut] * 13
    rng.shuffle(acts)
    disturbances = [(2_900 * (number + 1), act) for number, act in enumerate(acts)]
    told(rig, rig.run(strikes, disturbances, within=900))
