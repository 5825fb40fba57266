"""Brokers through Spark with faults on the way: lost 0, unexpected 0, duplicates as promised."""

import pytest

from penstock.conformance.oracle import Oracle
from tests.brokers.artemis import Artemis
from tests.brokers.fixtures import running
from tests.brokers.rabbitmq import RabbitMQ
from tests.faults.proxy import Proxy
from tests.faults.queue_amqp import AmqpPlace
from tests.faults.queue_jms import JmsPlace
from tests.faults.queue_rig import Rig, few, many

pytestmark = [pytest.mark.faults, pytest.mark.server, pytest.mark.spark]
BOTH = pytest.mark.parametrize("delivery", ["optimistic", "pessimistic"])
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

    def make(delivery, size):
        oracle, rows = Oracle(size, penstock_seed), max(50, size // 40)
        named = f"penstock_{connector}:connector"
        return Rig(tmp_path, place(broker), proxy, oracle, delivery, rows, named)

    with Proxy(broker.port) as proxy:
        yield make


@pytest.mark.timeout(300)
@BOTH
def test_a_few_faults_at_named_points_and_beside_them(rig, connector, delivery, judged):
    made, faults = rig(delivery, 800), few(delivery)
    judged(f"{connector} {delivery}", len(faults), made.run(faults))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@BOTH
def test_thirty_faults(rig, connector, delivery, judged, penstock_seed):
    made, faults = rig(delivery, 20_000), many(delivery, penstock_seed)
    judged(f"{connector} {delivery}", len(faults), made.run(faults))
