import time
from contextlib import suppress

import pytest

from penstock.conformance.waiting import until
from penstock.contracts import Limit
from penstock.contracts.errors import EphemeralReadError
from penstock_jms.client import Client

pytestmark = pytest.mark.server


@pytest.mark.parametrize("priority", [4, 9], ids=["together", "each"])
@pytest.mark.parametrize("session", ["transacted", "client"])
def test_the_client_of_artemis_acknowledges_nothing_by_itself(place, session, priority):
    place.write([{"value": b"x"}], priority=str(priority))
    client = Client(place.source(), transacted=session == "transacted")
    client.begin()
    client.session.createConsumer(client.destination).receive(10_000)
    client.session.getCoreSession().commit()
    client.close()
    assert [row["value"] for row in place.take(session=session)] == [b"x"]
    assert place.take() == []


ENDS = [
    (session, end)
    for session in ("transacted", "client")
    for end in ("acknowledge", "release", "close", "receive")
]


@pytest.mark.parametrize(
    ("session", "end"),
    [ENDS[0], *(pytest.param(*each, marks=pytest.mark.slow) for each in ENDS[1:])],
)
def test_a_frozen_broker_gives_all_again_when_it_goes_on(place, artemis, session, end):
    """Artemis loses sight of what it is acknowledging while it closes a session as dead."""
    count, hasty = 3000, "?callTimeout=1000&clientFailureCheckPeriod=500&connectionTTL=1000"
    place.write([{"value": b"%04d" % n + b"x" * 1000} for n in range(count)])
    consumer = place.consumer(url=place.options["url"] + hasty, session=session)
    consumer.window(Limit())
    lease = place.lease(consumer, rows=1 if end == "receive" else count)
    if end == "receive":
        lease.release()
    artemis.freeze()
    try:
        frozen = time.monotonic()
        if end == "receive":
            with suppress(EphemeralReadError):
                consumer.receive(Limit(), 0)
        elif end != "close":
            with pytest.raises(EphemeralReadError):
                getattr(lease, end)()
        consumer.close()
        time.sleep(max(0, frozen + 4 - time.monotonic()))  # the client seems dead by then
    finally:
        artemis.thaw()
    found: list[bytes] = []

    def all_are_there() -> bool:
        found.extend(row["value"] for row in place.take())
        return len(found) >= count

    until(all_are_there, within=20, why="the broker gives all again")
    assert len(set(found)) == len(found) == count
