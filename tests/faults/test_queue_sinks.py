"""Sinks of brokers, broken on purpose: nothing lost, nothing strange, repeats as promised.

Below Spark: one writer at a time, driven as the core drives it. What a driver's death does to a
sink is in the conformance suite.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.conformance.oracle import Oracle
from penstock.contracts.errors import EphemeralError
from tests.brokers.artemis import Artemis
from tests.brokers.fixtures import running
from tests.brokers.rabbitmq import RabbitMQ
from tests.brokers.server import Server
from tests.faults.proxy import Proxy
from tests.faults.queue_amqp import AmqpPlace
from tests.faults.queue_jms import JmsPlace
from tests.faults.queue_writing import written

pytestmark = [pytest.mark.faults, pytest.mark.server, pytest.mark.timeout(600)]

BATCH = 100
"""Few rows: a fault may repeat a batch, and thirty of them must be far from all."""
RUNS = pytest.mark.parametrize(
    ("ids", "faults"),
    [(4_000, 5), pytest.param(20_000, 30, marks=pytest.mark.slow)],
    ids=["short", "long"],
)
COMMIT = b"\x2b" + bytes(7)  # Artemis's SESS_COMMIT and the beginning of a channel's number
ONCE = {"duplicate_detection": "artemis"}
APPEND = {"duplicate_detection": "none"}
CASES = {"amqp": {}, "jms exactly once": ONCE, "jms append": APPEND}


@pytest.fixture(scope="module")
def artemis_alone():
    yield from running(Artemis(heap="512m"))


@pytest.fixture(scope="module")
def rabbitmq_alone():
    yield from running(RabbitMQ())


@pytest.fixture
def place(request, case):
    if case == "amqp":
        made = AmqpPlace(request.getfixturevalue("rabbitmq_alone"))
        made.declare()
        return made
    return JmsPlace(request.getfixturevalue("artemis_alone"))


@pytest.fixture
def proxy(place):
    with Proxy(place.broker.port) as proxy:
        yield proxy


def patiently(work: Callable[[], object], within: float = 60.0) -> None:
    """Try again while the error may pass; the deadline is the bound on recovery."""
    deadline = time.monotonic() + within
    while True:
        try:
            work()
            return
        except EphemeralError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


class Striking:
    """Faults at seeded moments while batches are written."""

    def __init__(self, seed: int, faults: list[Callable[[], None]], total: int) -> None:
        self._chance = random.Random(seed)
        moments = sorted(self._chance.sample(range(BATCH, total - BATCH), len(faults)))
        self._chance.shuffle(faults)
        self._due = list(zip(moments, faults, strict=True))
        self.struck = 0

    @contextmanager
    def during(self, done: int) -> Iterator[None]:
        """Strike what is due after so many rows, at moments while the block runs."""
        due = [fault for moment, fault in self._due if moment <= done]
        self._due = self._due[len(due) :]
        self.struck += len(due)
        timers = [threading.Timer(self._chance.uniform(0.0, 0.05), fault) for fault in due]
        for timer in timers:
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.join()


def faults_of(broker: Server, proxy: Proxy, count: int) -> list[Callable[[], None]]:
    def cut() -> None:
        proxy.cut()
        proxy.pass_through()

    def half_open() -> None:
        proxy.half_open()
        threading.Timer(1.0, proxy.pass_through).start()

    def unanswered() -> None:
        proxy.cut_between_request_and_reply()

    kinds = [cut, unanswered, half_open]
    kills = max(1, count // 10)
    return [broker.restart] * kills + [kinds[number % 3] for number in range(count - kills)]


@pytest.mark.parametrize("case", CASES)
@RUNS
def test_a_sink_writes_each_batch_as_promised(
    place, proxy, case, penstock_seed, ids, faults, judged
):
    oracle = Oracle(ids, penstock_seed + list(CASES).index(case))
    sink = place.sink(proxy.port, **CASES[case])
    striking = Striking(penstock_seed, faults_of(place.broker, proxy, faults), ids)
    for number in range(ids // BATCH):
        share = oracle.ids[number * BATCH : (number + 1) * BATCH]

        def attempt(number: int = number, share: tuple[str, ...] = share) -> None:
            with striking.during(number * BATCH):
                written(sink, number, share)

        patiently(attempt)
    assert striking.struck == faults
    allowed = 0 if CASES[case] is ONCE else BATCH * faults
    judged(f"sink: {case}", faults, oracle.judge(place.taken(), duplicates=allowed))


@pytest.mark.parametrize("case", ["jms exactly once", "jms append"])
def test_a_commit_whose_answer_is_lost_counts_once_only_with_duplicate_detection(
    place, proxy, case, penstock_seed
):
    oracle, sink = Oracle(BATCH, penstock_seed + 7), place.sink(proxy.port, **CASES[case])
    lost = proxy.cut_between_request_and_reply(containing=COMMIT)
    with pytest.raises(EphemeralError):
        written(sink, 0, oracle.ids)
    assert lost.is_set(), "the commit was not recognised: nothing is proved"
    patiently(lambda: written(sink, 0, oracle.ids))
    expected = 0 if CASES[case] is ONCE else BATCH
    assert oracle.judge(place.taken(), duplicates=expected).require().surplus == expected
