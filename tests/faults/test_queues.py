"""Brokers through Spark with faults on the way: lost 0, unexpected 0, duplicates as promised."""

import pytest

from penstock.conformance.oracle import Oracle
from tests.brokers.artemis import Artemis
from tests.brokers.fixtures import running
from tests.brokers.rabbitmq import RabbitMQ
from tests.faults.proxy import Proxy
from tests.faults.queue_amqp import AmqpPlace
from tests.faults.queue_jms import JmsPlace
from tests.faults.queue_rig import KINDS, Rig, few, many, one

pytestmark = [pytest.mark.faults, pytest.mark.server, pytest.mark.spark]
ROWS = 50
"""In a batch: few, or the windows that thirty faults may repeat are more than all messages."""
BOTH = pytest.mark.parametrize("delivery", ["optimistic", "pessimistic"])
OTHERS = {"amqp": {"kind": "quorum"}, "jms": {"session": "client"}}
"""The other kind of queue or session."""
DURABLE = {"amqp": {"kind": "quorum"}, "jms": {}}
"""Queues that have written an acknowledgement when they take it: what comes again is few."""
BROKERS = {"amqp": (RabbitMQ, AmqpPlace), "jms": (lambda: Artemis(heap="512m"), JmsPlace)}


@pytest.fixture(scope="module", params=BROKERS)
def connector(request):
    return request.param


@pytest.fixture(scope="module")
def broker(connector):
    server, _ = BROKERS[connector]
    yield from running(server())


@pytest.fixture
def rig(tmp_path, penstock_seed, connector, broker):
    _, place = BROKERS[connector]

    def make(delivery, size, kind=None, **more):
        at = place(broker) if kind is None else place(broker, kind)
        named = f"penstock_{connector}:connector"
        oracle = Oracle(size, penstock_seed)
        return Rig(tmp_path, at, proxy, oracle, delivery, ROWS, named, more)

    with Proxy(broker.port) as proxy:
        yield make


@pytest.mark.timeout(300)
@BOTH
def test_a_few_faults_at_named_points_and_beside_them(rig, connector, delivery, judged):
    made, faults = rig(delivery, 800, **DURABLE[connector]), few(delivery)
    judged(f"{connector} {delivery}", len(faults), made.run(faults))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_one_fault_repeats_no_more_than_its_own_bound(rig, connector, kind, judged):
    made = rig("optimistic", 1000, **DURABLE[connector])
    judged(f"{connector} optimistic, {kind}", 1, made.run(one(kind)))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@BOTH
def test_thirty_faults(rig, connector, delivery, judged, penstock_seed):
    made, faults = rig(delivery, 20_000), many(delivery, penstock_seed)
    judged(f"{connector} {delivery}", len(faults), made.run(faults))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@BOTH
def test_thirty_faults_of_the_other_kind(rig, connector, delivery, judged, penstock_seed):
    other = OTHERS[connector]
    made, faults = rig(delivery, 20_000, **other), many(delivery, penstock_seed)
    judged(f"{connector} {delivery}, {next(iter(other.values()))}", len(faults), made.run(faults))
