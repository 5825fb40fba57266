"""RabbitMQ through Spark with faults on the way: lost 0, unexpected 0, duplicates as promised."""

import random

import pytest

from penstock.conformance.oracle import Oracle
from tests.brokers.fixtures import running
from tests.brokers.rabbitmq import RabbitMQ
from tests.faults.proxy import Proxy
from tests.faults.queue_amqp import (
    Disturbance,
    Rig,
    broker_frozen,
    broker_killed,
    connections_cut,
)

pytestmark = [pytest.mark.faults, pytest.mark.server, pytest.mark.spark, pytest.mark.slow]
POINTS = {
    "optimistic": ["ledger-write", "ledger-finished", "before-ack"],
    "pessimistic": ["segment-written", "manifest-written", "ledger-write", "ledger-finished"],
}


@pytest.fixture
def rig(request, tmp_path, penstock_seed):
    delivery, size = request.param
    servers = running(RabbitMQ())
    broker = next(servers)
    try:
        with Proxy(broker.port) as proxy:
            oracle = Oracle(size, penstock_seed)
            yield Rig(tmp_path, broker, proxy, oracle, delivery, max_rows=max(50, size // 40))
    finally:
        next(servers, None)


def allowed(rig, faults):
    """Optimistic: what may be unacknowledged, once per fault. Pessimistic with unique ids: none."""
    return 0 if rig.delivery == "pessimistic" else faults * 2 * rig.max_rows


def table(rig, verdict, faults):
    print(f"\namqp {rig.delivery:12} N={rig.oracle.size:6} faults={faults:3}  {verdict}")


@pytest.mark.parametrize("rig", [("optimistic", 2000), ("pessimistic", 2000)], indirect=True)
def test_kills_at_named_points_and_a_broker_kill(rig):
    strikes = [f"{point}@{n + 2}" for n, point in enumerate(POINTS[rig.delivery])]
    verdict = rig.run(
        strikes,
        [Disturbance("broker killed", 600, broker_killed)],
        allowed(rig, len(strikes) + 1),
    )
    table(rig, verdict, len(strikes) + 1)
    verdict.require()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rig", [("optimistic", 20_000), ("pessimistic", 20_000)], indirect=True)
def test_thirty_faults(rig, penstock_seed):
    chance = random.Random(penstock_seed)
    points = POINTS[rig.delivery]
    strikes: set[str] = set()
    while len(strikes) < 20:
        strikes.add(f"{chance.choice(points)}@{chance.randint(1, 12)}")
    workers = [f"ledger-write@{n}:worker" for n in (31, 47)]
    disturbances = [
        *[
            Disturbance(f"broker killed {n}", chance.randint(500, 15_000), broker_killed)
            for n in range(4)
        ],
        *[Disturbance(f"cut {n}", chance.randint(500, 15_000), connections_cut) for n in range(4)],
        Disturbance("frozen for 90 s", chance.randint(4000, 12_000), broker_frozen(90)),
    ]
    faults = len(strikes) + len(workers) + len(disturbances)
    verdict = rig.run([*sorted(strikes), *workers], disturbances, allowed(rig, faults))
    table(rig, verdict, faults)
    verdict.require()
