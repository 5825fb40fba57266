"""A stream from JMS to JMS through Spark, killed at named points and started again."""

import json
import random
import uuid
from pathlib import Path

import pytest

from penstock.conformance.kill import Driver
from penstock.conformance.oracle import Oracle
from penstock.contracts.options import parse
from penstock_jms.source import JmsSource
from tests.brokers.artemis import Artemis
from tests.brokers.fixtures import running
from tests.faults.test_jms_broker import drain, fill, options

pytestmark = [
    pytest.mark.faults,
    pytest.mark.server,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(2400),
]

ROWS = 500
POINTS = {
    "optimistic": ["mid-write", "before-ack", "mid-write:worker"],
    "pessimistic": ["segment-written", "manifest-written", "mid-write", "mid-write:worker"],
}


@pytest.fixture(scope="module")
def broker():
    yield from running(Artemis(heap="512m"))


def strikes(seed: int, points: list[str], count: int, most: int) -> list[str]:
    """Each point equally often, at seeded visits to it."""
    chance = random.Random(seed)
    chosen = []
    for number, point in enumerate(points):
        named, _, kind = point.partition(":")
        share = count // len(points) + (number < count % len(points))
        for visit in sorted(chance.sample(range(2, most), share)):
            # Whoever dies as a worker must not be told so at the visit where all die.
            odd = visit * 2 + (1 if kind else 0)
            chosen.append(f"{named}@{odd}" + (f":{kind}" if kind else ""))
    return chosen


@pytest.mark.parametrize("delivery", ["optimistic", "pessimistic"])
@pytest.mark.parametrize(
    ("ids", "faults"),
    [(6_000, 3), (20_000, 30)],
    ids=["short", "long"],
)
def test_a_killed_stream_keeps_its_guarantee(
    broker, tmp_path: Path, penstock_seed, delivery, ids, faults, judged
):
    oracle = Oracle(ids, penstock_seed)
    inward, outward = f"in-{uuid.uuid4().hex}", f"out-{uuid.uuid4().hex}"
    fill(broker, inward, oracle)
    read = {
        **options(broker, broker.port, inward),
        "checkpoint": str(tmp_path / "checkpoint"),
        "delivery": delivery,
        "max_rows": str(ROWS),
        # Every kill counts as a delivery of all that the client had fetched.
        "property.consumerWindowSize": "65536",
        "poison": "0",
    }
    if delivery == "pessimistic":
        read["unique_ids"] = "true"
    write = {**options(broker, broker.port, outward), "duplicate_detection": "artemis"}
    driver = Driver(
        [str(Path(__file__).with_name("jms_driver.py"))],
        folder=tmp_path / "driver",
        strikes=strikes(penstock_seed, POINTS[delivery], faults, ids // ROWS // 3),
        env={"PENSTOCK_JMS_DRIVER": json.dumps({"read": read, "write": write})},
    )
    driver.finish(within=240)
    arrived = drain(parse(JmsSource, options(broker, broker.port, outward)))
    # A worker that dies is replaced by Spark, and its task's transaction with it.
    lives = driver.lives - 1
    allowed = 0 if delivery == "pessimistic" else 2 * ROWS * lives
    judged(f"jms to jms, {delivery}", faults, oracle.judge(arrived, duplicates=allowed))
    assert drain(parse(JmsSource, options(broker, broker.port, inward))) == []
    assert drain(parse(JmsSource, options(broker, broker.port, "DLQ"))) == []
