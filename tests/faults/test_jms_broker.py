"""JMS against Artemis, broken on purpose: nothing lost, nothing strange, repeats within bounds.

Below Spark: one consumer or one writer, driven as the core drives it. What a driver's death does
is in `test_jms_spark`.
"""

import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from penstock.conformance.oracle import Oracle
from penstock.conformance.waiting import until
from penstock.contracts import ENVELOPE, Batch, Context, Limit
from penstock.contracts.errors import EphemeralError
from penstock.contracts.options import parse
from penstock_jms.sink import JmsSink
from penstock_jms.source import JmsSource
from tests.brokers.artemis import Artemis
from tests.brokers.fixtures import running
from tests.faults.proxy import Proxy

pytestmark = [pytest.mark.faults, pytest.mark.server, pytest.mark.timeout(600)]

BATCH = 500
RUNS = pytest.mark.parametrize(
    ("ids", "faults"),
    [(4_000, 5), pytest.param(20_000, 30, marks=pytest.mark.slow)],
    ids=["short", "long"],
)
COMMIT = b"\x2b" + bytes(7)  # Artemis's SESS_COMMIT and the beginning of a channel's number
# What a client does about a silent broker is its own setting; here it gives up soon.
HASTY = "callTimeout=5000&clientFailureCheckPeriod=2000&connectionTTL=4000"


@pytest.fixture(scope="module")
def broker():
    yield from running(Artemis(heap="512m"))


@pytest.fixture
def proxy(broker):
    with Proxy(broker.port) as proxy:
        yield proxy


def options(broker: Artemis, port: int, queue: str) -> dict[str, str]:
    return {
        "jars": ",".join(map(str, broker.client_jars)),
        "url": f"tcp://127.0.0.1:{port}?{HASTY}",
        "user": broker.user,
        "password": broker.password,
        "queue": queue,
    }


def rows(ids: tuple[str, ...]) -> pa.RecordBatch:
    full = [{**dict.fromkeys(ENVELOPE.names), "value": id.encode()} for id in ids]
    return pa.RecordBatch.from_pylist(full, schema=ENVELOPE)


def write(sink: JmsSink, number: int, ids: tuple[str, ...]) -> None:
    schema = sink.accepts(ENVELOPE)
    writer = sink.open(Batch(Context(query="faults"), number), 0, 0, schema)
    try:
        writer.write(rows(ids).select(schema.names))
        writer.close()
    except BaseException:
        writer.abort()
        raise


def patiently(work, within: float = 60.0):
    """Try again while the error may pass; the deadline is the bound on recovery."""
    deadline = time.monotonic() + within
    while True:
        try:
            return work()
        except EphemeralError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def fill(broker: Artemis, queue: str, oracle: Oracle) -> None:
    sink = parse(JmsSink, {**options(broker, broker.port, queue), "transaction_rows": "1000"})
    write(sink, 0, oracle.ids)


def drain(source: JmsSource) -> list[str]:
    consumer = source.consumer(Context(), 0)
    found: list[str] = []
    try:
        while (lease := consumer.receive(Limit(rows=2000), 1.0)) is not None:
            found += [value.decode() for value in lease.rows.column("value").to_pylist()]
            lease.acknowledge()
    finally:
        consumer.close()
    return found


class Striking:
    """Faults at seeded moments of the work: `at(done)` is told how much of it is done."""

    def __init__(self, seed: int, faults: list, total: int) -> None:
        self._chance = random.Random(seed)
        moments = sorted(self._chance.sample(range(BATCH, total - BATCH), len(faults)))
        self._chance.shuffle(faults)
        self._due = list(zip(moments, faults, strict=True))
        self.struck = 0

    def at(self, done: int) -> None:
        """Strike now what is due."""
        for fault in self._taken(done):
            fault()

    @contextmanager
    def during(self, done: int) -> Iterator[None]:
        """Strike what is due at seeded moments while the block runs."""
        timers = [
            threading.Timer(self._chance.uniform(0.0, 0.15), fault) for fault in self._taken(done)
        ]
        for timer in timers:
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.join()

    def _taken(self, done: int) -> list:
        due = [fault for moment, fault in self._due if moment <= done]
        self._due = self._due[len(due) :]
        self.struck += len(due)
        return due


def faults_of(broker: Artemis, proxy: Proxy, count: int) -> list:
    def cut() -> None:
        proxy.cut()
        proxy.pass_through()

    def half_open() -> None:
        proxy.half_open()
        threading.Timer(1.0, proxy.pass_through).start()

    def unanswered() -> None:
        proxy.cut_between_request_and_reply()

    def killed() -> None:
        broker.restart()

    kinds = [cut, unanswered, half_open]
    kills = max(1, count // 10)
    return [killed] * kills + [kinds[number % 3] for number in range(count - kills)]


@RUNS
def test_a_consumer_loses_nothing_to_a_broken_broker_or_network(
    broker, proxy, penstock_seed, ids, faults, judged
):
    queue, oracle = f"q-{uuid.uuid4().hex}", Oracle(ids, penstock_seed)
    fill(broker, queue, oracle)
    # What a client has fetched counts as delivered when it is cut off, ten times at most.
    little = {"property.consumerWindowSize": "65536"}
    source = parse(JmsSource, {**options(broker, proxy.port, queue), **little})
    striking = Striking(penstock_seed, faults_of(broker, proxy, faults), ids)
    arrived: list[str] = []
    consumer = None
    quiet = 0
    while quiet < 3:
        striking.at(len(arrived))
        try:
            if consumer is None:
                consumer = patiently(lambda: source.consumer(Context(), 0))
            lease = consumer.receive(Limit(rows=BATCH), 0.5)
            quiet = quiet + 1 if lease is None else 0
            if lease is not None:
                arrived += [value.decode() for value in lease.rows.column("value").to_pylist()]
                striking.at(len(arrived))
                lease.acknowledge()
        except EphemeralError:
            consumer.close()
            consumer = None
            quiet = 0
    consumer.close()
    assert striking.struck == faults
    judged("jms consumer, no Spark", faults, oracle.judge(arrived, duplicates=BATCH * faults))
    assert drain(parse(JmsSource, options(broker, broker.port, queue))) == []
    assert drain(parse(JmsSource, options(broker, broker.port, "DLQ"))) == []


@pytest.mark.parametrize("once", [True, False], ids=["exactly-once", "append"])
@RUNS
def test_a_sink_writes_each_batch_as_promised(
    broker, proxy, penstock_seed, once, ids, faults, judged
):
    queue, oracle = f"q-{uuid.uuid4().hex}", Oracle(ids, penstock_seed + 1 + once)
    given = options(broker, proxy.port, queue)
    sink = parse(JmsSink, {**given, "duplicate_detection": "artemis" if once else "none"})
    striking = Striking(penstock_seed, faults_of(broker, proxy, faults), ids)
    for number in range(ids // BATCH):
        share = oracle.ids[number * BATCH : (number + 1) * BATCH]

        def attempt(number: int = number, share: tuple[str, ...] = share) -> None:
            with striking.during(number * BATCH):
                write(sink, number, share)

        patiently(attempt)
    assert striking.struck == faults
    arrived = patiently(lambda: drain(parse(JmsSource, options(broker, broker.port, queue))))
    verdict = oracle.judge(arrived, duplicates=0 if once else BATCH * faults)
    judged(f"jms sink, {'exactly once' if once else 'append'}", faults, verdict)


@pytest.mark.parametrize("once", [True, False], ids=["exactly-once", "append"])
def test_a_commit_whose_answer_is_lost_counts_once_only_with_duplicate_detection(
    broker, proxy, penstock_seed, once
):
    queue, oracle = f"q-{uuid.uuid4().hex}", Oracle(BATCH, penstock_seed + 7)
    given = options(broker, proxy.port, queue)
    sink = parse(JmsSink, {**given, "duplicate_detection": "artemis" if once else "none"})
    lost = proxy.cut_between_request_and_reply(containing=COMMIT)
    with pytest.raises(EphemeralError):
        write(sink, 0, oracle.ids)
    assert lost.is_set(), "the commit was not recognised: nothing is proved"
    patiently(lambda: write(sink, 0, oracle.ids))
    arrived = drain(parse(JmsSource, options(broker, broker.port, queue)))
    verdict = oracle.judge(arrived, duplicates=0 if once else BATCH)
    assert verdict.require().surplus == (0 if once else BATCH)


@pytest.mark.slow
def test_a_broker_frozen_for_90_seconds_costs_one_lease(broker, penstock_seed):
    queue, oracle = f"q-{uuid.uuid4().hex}", Oracle(2_000, penstock_seed + 5)
    fill(broker, queue, oracle)
    source = parse(JmsSource, options(broker, broker.port, queue))
    consumer = source.consumer(Context(), 0)
    lease = consumer.receive(Limit(rows=BATCH), 10)
    arrived = [value.decode() for value in lease.rows.column("value").to_pylist()]
    broker.freeze()
    began = time.monotonic()
    with pytest.raises(EphemeralError):
        lease.acknowledge()
    consumer.close()
    until(lambda: time.monotonic() - began > 90, within=100, why="90 seconds have passed")
    broker.thaw()
    arrived += patiently(lambda: drain(source))
    oracle.judge(arrived, duplicates=BATCH).require()
