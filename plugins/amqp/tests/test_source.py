"""The source against a real broker, without Spark."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from penstock.conformance.waiting import until
from penstock.contracts import Context, Limit, Secret
from penstock.contracts.errors import EphemeralReadError, ReadError
from penstock_amqp.consumer import AmqpConsumer
from penstock_amqp.source import AmqpSource
from tests.faults.proxy import Proxy

from .conftest import Place

pytestmark = pytest.mark.server


def source(place, **options):
    given = {"url": Secret(place.server.url), "queue": (place.queue,), **options}
    return AmqpSource(**given)


@pytest.fixture
def consumer(place):
    made = source(place).consumer(Context(), 0)
    yield made
    made.close()


MANY = Limit(rows=1000)


def received(consumer, count, limit=MANY):
    leases = []
    until(
        lambda: _more(consumer, leases, limit) and sum(x.rows.num_rows for x in leases) >= count,
        within=20,
        why=f"{count} messages arrive",
        every=0,
    )
    return leases


def _more(consumer, leases, limit):
    lease = consumer.receive(limit, 0.5)
    if lease is not None:
        leases.append(lease)
    return True


def rows(leases):
    return [row for lease in leases for row in lease.rows.to_pylist()]


def test_properties_and_headers_of_all_types_reach_the_envelope(place, consumer):
    headers = {
        "text": "naïve",
        "bytes": b"\x00\xff",
        "int": -5,
        "big": 2**40,
        "yes": True,
        "decimal": Decimal("12.34"),
        "when": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
        "list": [1, "two"],
        "table": {"a": {"b": 1}},
        "none": None,
    }
    place.send(
        "one",
        headers=headers,
        timestamp=1_700_000_000,
        correlation_id="c-1",
        priority=3,
        expiration="60000",
        reply_to="answers",
        content_type="text/plain",
    )
    (row,) = rows(received(consumer, 1))
    assert (row["id"], row["value"], row["key"]) == ("one", b"one", place.queue.encode())
    assert row["event_time"] == datetime.fromtimestamp(1_700_000_000, UTC)
    found = {h["key"]: h["value"] for h in row["headers"]}
    assert found == {
        "amqp.content_type": b"text/plain",
        "amqp.priority": b"3",
        "amqp.correlation_id": b"c-1",
        "amqp.reply_to": b"answers",
        "amqp.expiration": b"60000",
        "amqp.types": b'{"int":"json","big":"json","yes":"json","decimal":"decimal",'
        b'"when":"timestamp","list":"json","table":"json"}',
        "text": "naïve".encode(),
        "bytes": b"\x00\xff",
        "int": b"-5",
        "big": b"1099511627776",
        "yes": b"true",
        "decimal": b'"12.34"',
        "when": b'"2024-01-02T03:04:05+00:00"',
        "list": b'[1,"two"]',
        "table": b'{"a":{"b":1}}',
        "none": None,
    }


def test_stamps_rise_within_a_connection(place, consumer):
    place.send(*[str(n) for n in range(50)])
    stamps = [row["stamp"] for row in rows(received(consumer, 50))]
    assert {(s["origin"], len(s["part"])) for s in stamps} == {(f"amqp:{place.queue}", 32)}
    positions = [s["position"] for s in stamps]
    assert positions == sorted(set(positions))


def test_acknowledging_covers_the_lease_and_those_before(place, consumer):
    place.send("a", "b", "c", "d")
    leases = received(consumer, 4, Limit(rows=1))
    leases[2].acknowledge()
    consumer.close()
    until(lambda: place.depth() == 1, within=10, why="only the last comes back")
    assert [body for _, _, body in place.take()] == [b"d"]


def test_release_puts_back_these_alone(place, consumer):
    place.send("a", "b", "c")
    leases = received(consumer, 3, Limit(rows=1))
    leases[1].release()
    again = received(consumer, 1)
    assert rows(again)[0]["id"] == "b"
    assert again[0].redelivered.to_pylist() == [True]


def test_a_lease_of_a_lost_connection_acknowledges_nothing(fresh_rabbitmq):
    place = Place(fresh_rabbitmq)
    place.send("a", "b")
    consumer = source(place).consumer(Context(), 0)
    (lease,) = received(consumer, 2)
    fresh_rabbitmq.restart()

    def lost():
        try:
            consumer.receive(Limit(rows=0), 0.1)
        except EphemeralReadError:
            return True
        return False

    until(lost, within=30, why="the loss is noticed")
    with pytest.raises(EphemeralReadError, match="gone"):
        lease.acknowledge()
    consumer.close()
    again = source(place).consumer(Context(), 0)
    assert {row["id"] for row in rows(received(again, 2))} == {"a", "b"}
    again.close()


def test_a_quorum_queue_counts_deliveries(rabbitmq):
    place = Place(rabbitmq, {"x-queue-type": "quorum"})
    place.send("a")
    consumer = source(place).consumer(Context(), 0)
    (lease,) = received(consumer, 1)
    lease.release()
    (again,) = received(consumer, 1)
    assert again.deliveries.to_pylist() == [2]
    consumer.close()


def test_several_queues_come_over_one_channel(rabbitmq):
    one, two = Place(rabbitmq), Place(rabbitmq)
    one.send("a", "b")
    two.send("c")
    consumer = source(one, queue=(one.queue, two.queue)).consumer(Context(), 0)
    assert consumer.depth() == 3
    found = rows(received(consumer, 3))
    assert {(r["stamp"]["origin"], r["id"]) for r in found} == {
        (f"amqp:{one.queue}", "a"),
        (f"amqp:{one.queue}", "b"),
        (f"amqp:{two.queue}", "c"),
    }
    consumer.close()


def test_the_prefetch_follows_the_window_and_the_size_of_messages(place):
    place.send(*[str(n) for n in range(300)])
    consumer = source(place).consumer(Context(), 0)
    consumer.window(Limit(rows=200, bytes=10_000_000))
    received(consumer, 200, Limit(rows=200))
    until(lambda: place.depth() == 100, within=10, why="the window is full")
    assert consumer.unacknowledged() == 200
    consumer.close()
    small = source(place).consumer(Context(), 0)
    small.window(Limit(rows=200, bytes=20_000))  # some 40 messages with their overhead
    received(small, 100, Limit(rows=200))
    small.receive(Limit(rows=200), 0.3)
    assert small.receive(Limit(rows=200), 0.3) is None
    assert 100 <= small.unacknowledged() <= 120
    assert isinstance(small, AmqpConsumer)
    small.close()


def test_headers_count_as_bytes(place):
    place.send(*[str(n) for n in range(20)], headers={"h": "x" * 10_000})
    consumer = source(place).consumer(Context(), 0)
    consumer.window(Limit(rows=200, bytes=50_000))
    lease = consumer.receive(Limit(rows=200, bytes=50_000), 5)
    assert 1 <= lease.rows.num_rows <= 5
    consumer.close()


def test_little_is_sent_ahead_of_messages_that_come_again_and_again(rabbitmq):
    place = Place(rabbitmq, {"x-queue-type": "quorum"})
    place.send(*[str(n) for n in range(600)])
    ahead = []
    for _ in range(6):
        consumer = source(place).consumer(Context(), 0)
        consumer.window(Limit(rows=600))
        received(consumer, 100, Limit(rows=600))
        consumer.receive(Limit(rows=0), 0.3)
        ahead.append(600 - place.depth())
        consumer.close()  # what it had got counts as delivered
        until(lambda: place.depth() == 600, within=20, why="all are in the queue again")
    assert ahead[0] == 600
    assert ahead[-1] <= 120, "the first messages, which showed how often they came"


def test_a_missing_queue_is_told_and_not_made(place):
    with pytest.raises(ReadError, match="NOT_FOUND"):
        source(place, queue=("nowhere",)).check()


def test_a_queue_is_declared_only_when_asked(place):
    name = f"{place.queue}-made"
    made = source(place, queue=(name,), declare=True, declare_arguments={"x-queue-type": "quorum"})
    made.check()
    with place.channel() as channel:
        assert channel.queue_declare(name, passive=True).method.message_count == 0


def test_an_exclusive_consumer_keeps_others_out(place):
    first = source(place, exclusive=True).consumer(Context(), 0)
    first.receive(Limit(rows=1), 0.1)
    second = source(place).consumer(Context(), 0)
    with pytest.raises(ReadError, match="exclusive"):
        second.receive(Limit(rows=1), 0.1)
    second.close()
    first.close()


def test_wrong_credentials_fail_at_check_without_naming_the_password(place):
    address = place.server.address
    wrong = AmqpSource(queue=(place.queue,), hosts=(address,), password=Secret("wrong-canary"))
    with pytest.raises(ReadError, match="credentials") as failed:
        wrong.check()
    assert "wrong-canary" not in str(failed.value)
    assert not isinstance(failed.value, EphemeralReadError)


@pytest.mark.parametrize("said", [b"PLAIN", b"\x00\x0a\x00\x28"], ids=["log in", "open"])
def test_a_network_that_is_cut_while_logging_in_is_no_refusal(place, said):
    with Proxy(place.server.port) as proxy:
        url = Secret(f"amqp://guest:guest@127.0.0.1:{proxy.port}/")
        cut = proxy.cut_between_request_and_reply(containing=said)
        with pytest.raises(EphemeralReadError, match="lost while logging in"):
            source(place, url=url).check()
        assert cut.is_set()
        source(place, url=url).check()


def test_a_broker_that_is_not_there_is_an_ephemeral_error():
    away = AmqpSource(queue=("q",), hosts=("127.0.0.1:1",))
    with pytest.raises(EphemeralReadError):
        away.check()


def test_the_second_host_is_used_when_the_first_is_away(place):
    place.send("a")
    hosts = ("127.0.0.1:1", place.server.address)
    consumer = AmqpSource(queue=(place.queue,), hosts=hosts).consumer(Context(), 0)
    assert rows(received(consumer, 1))[0]["id"] == "a"
    consumer.close()


def test_close_leaves_no_consumer_at_the_broker(place, consumer):
    place.send("a")
    received(consumer, 1)
    assert place.consumers() == 1
    consumer.close()
    until(lambda: place.consumers() == 0, within=10, why="the consumer is gone")
    assert place.depth() == 1


@pytest.mark.slow
def test_a_channel_closed_for_a_late_acknowledgement_says_what_to_do(impatient):
    place = Place(impatient)
    place.send("a")
    consumer = source(place).consumer(Context(), 0)
    received(consumer, 1)

    def closed():
        try:
            consumer.receive(Limit(rows=0), 0.2)
        except EphemeralReadError as error:
            return str(error)
        return None

    told = until(closed, within=100, why="the broker loses its patience")
    assert "unacknowledged for too long" in told
    assert "consumer_timeout" in told
    consumer.close()


@pytest.fixture
def impatient():
    from tests.brokers.fixtures import running
    from tests.brokers.rabbitmq import RabbitMQ

    yield from running(RabbitMQ(settings={"consumer_timeout": "2000"}))
