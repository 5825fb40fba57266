import pytest

from penstock.conformance.waiting import until
from penstock.contracts import Limit
from penstock_jms.client import Client
from penstock_jms.pace import Pace
from tests.faults.proxy import Proxy

from .conftest import Place


def pace(**options: str) -> Pace:
    return Pace(Place({"url": "tcp://h", **options}).source())


def test_what_is_fetched_ahead_follows_what_may_be_held():
    few, many, small, told = pace(), pace(), pace(), pace(**{"property.consumerWindowSize": "99"})
    few.window(Limit(rows=100))
    many.window(Limit(rows=20_000, bytes=2**26))
    small.window(Limit(rows=20_000, bytes=10))
    told.window(Limit(rows=100))
    free = pace()
    free.window(Limit())
    assert free.fetch == many.fetch
    assert [each.fetch for each in (few, many, small, told)] == [102_400, 2**23, 16_384, None]


def test_messages_that_come_again_and_again_are_taken_in_ever_smaller_leases_unfetched():
    at = pace()
    taken = []
    for at.before in range(8):
        taken.append((at.limited(Limit(rows=10_000)).rows, at.fetch))
    assert taken == [(10_000, None)] * 3 + [(1000, 0), (100, 0), (10, 0), (1, 0), (1, 0)]


@pytest.mark.slow  # the broker takes ten seconds to notice each death
@pytest.mark.server
def test_clients_that_die_do_not_bring_healthy_messages_near_the_brokers_limit(place, raw, artemis):
    count, deaths, rows = 3000, 8, 500
    place.write([{"value": b"%d" % n} for n in range(count)])
    with Proxy(artemis.port) as proxy:
        for _ in range(deaths):
            consumer = place.consumer(url=f"tcp://127.0.0.1:{proxy.port}")
            place.lease(consumer, rows=rows)
            proxy.cut()
            proxy.pass_through()
            consumer.close()
            # The broker notices at its own time.
            until(
                lambda: _consumers(raw.client, place.options["queue"]) == 0,
                within=30,
                why="the broker has its messages again",
            )
    consumer, counts = place.consumer(), []
    while (lease := consumer.receive(Limit(rows=rows), 1)) is not None:
        counts += lease.deliveries.to_pylist()
        lease.acknowledge()
    consumer.close()
    assert len(counts) == count
    assert max(counts) == counts[0] == deaths + 1, "who was in every lease"
    assert sum(each > 5 for each in counts) <= rows // 10, "who was beside it at first"
    assert counts[-1] <= 5


def _consumers(client: Client, queue: str) -> int:
    name = client.java("org.apache.activemq.artemis.api.core.SimpleString")(queue)
    return client.session.getCoreSession().queueQuery(name).getConsumerCount()
