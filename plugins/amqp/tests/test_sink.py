"""The sink against a real broker, without Spark."""

import threading
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from penstock.conformance.waiting import until
from penstock.contracts import ENVELOPE, Batch, Context, Secret
from penstock.contracts.errors import WriteError
from penstock_amqp.sink import AmqpSink

from .conftest import Place

pytestmark = pytest.mark.server
BATCH = Batch(Context(query="query", node="out"), 7)


def sink(place, **options):
    return AmqpSink(url=Secret(place.server.url), **{"routing_key": place.queue, **options})


VALUE = pa.schema([("value", pa.binary())])


def rows(*values, schema=VALUE, **columns):
    return pa.RecordBatch.from_pydict(
        {"value": [v.encode() for v in values], **columns}, schema=schema
    )


def written(sink, *batches):
    writer = sink.open(BATCH, 0, 0, batches[0].schema)
    for batch in batches:
        writer.write(batch)
    return writer.close()


def test_rows_arrive_confirmed_in_order_with_deterministic_ids(place):
    values = [f"v{n}" for n in range(5000)]
    receipt = written(sink(place, window=300), rows(*values[:3000]), rows(*values[3000:]))
    assert receipt.rows == 5000
    found = place.take()
    assert [body.decode() for _, _, body in found] == values
    assert found[4999][1].message_id == "query/out/7/0/4999"
    assert found[0][1].delivery_mode == 2


def test_the_envelope_travels_in_properties(place):
    row = {
        "key": b"key-1",
        "value": b"body",
        "headers": [
            {"key": "n", "value": b"1"},
            {"key": "raw", "value": b"\x00\xff"},
            {"key": "amqp.correlation_id", "value": b"c-1"},
            {"key": "amqp.priority", "value": b"4"},
        ],
        "event_time": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
        "id": "id-1",
        "stamp": None,
    }
    to = sink(place, routing_key=None, exchange=place.exchange, content_type="text/plain")
    written(to, pa.RecordBatch.from_pylist([row], schema=ENVELOPE))
    ((method, properties, body),) = place.take()
    assert (method.routing_key, body, properties.message_id) == ("key-1", b"body", "id-1")
    assert properties.headers == {"n": "1", "raw": b"\x00\xff"}
    assert (properties.correlation_id, properties.priority) == ("c-1", 4)
    assert properties.timestamp == int(row["event_time"].timestamp())
    assert properties.content_type == "text/plain"


def test_a_field_may_name_the_routing_key(place):
    schema = pa.schema([("value", pa.binary()), ("to", pa.string())])
    receipt = written(
        sink(place, routing_key=None, routing_key_field="to"),
        rows("a", "b", schema=schema, to=[place.queue, "nowhere"]),
    )
    assert [body for _, _, body in place.take()] == [b"a"]
    (rejected,) = receipt.rejected
    assert rejected.rows.to_pylist() == [{"value": b"b", "to": "nowhere"}]
    assert "NO_ROUTE" in rejected.errors[0]
    assert receipt.rows == 1


LONG = "ü" * 128


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": LONG}, "the id is 256 bytes"),
        ({"key": LONG.encode()}, "the routing key is 256 bytes"),
        ({"headers": {"amqp.correlation_id": LONG.encode()}}, "amqp.correlation_id is 256"),
        ({"headers": {"amqp.priority": b"high"}}, "0 to 255"),
        ({"headers": {"amqp.priority": b"256"}}, "0 to 255"),
        ({"headers": {"amqp.priority": "²".encode()}}, "0 to 255"),
        ({"headers": {"amqp.priority": b"9" * 5000}}, "0 to 255"),
        ({"headers": {"amqp.expiration": b"soon"}}, "milliseconds"),
        ({"headers": {"amqp.expiration": b"4294967296"}}, "milliseconds"),
        ({"headers": {LONG: b"1"}}, "a header's name is 256"),
        ({"headers": {"big": b"x" * 130_000}}, "at most 126000"),
    ],
)
def test_a_bad_row_is_rejected_and_its_neighbours_are_sent(place, row, says):
    given = [{"value": b"before"}, {"value": b"bad", **row}, {"value": b"after"}]
    to = sink(place, routing_key=None, exchange=place.exchange)
    receipt = written(to, pa.RecordBatch.from_pylist([envelope(r) for r in given], ENVELOPE))
    assert receipt.rows == 2
    (rejected,) = receipt.rejected
    assert rejected.rows.column("value").to_pylist() == [b"bad"]
    assert says in rejected.errors[0]
    assert [body for _, _, body in place.take()] == [b"before", b"after"]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "x" * 255, "key": b"k" * 255},
        {"headers": {"amqp.expiration": b"4294967295", "amqp.priority": b"255"}},
        {"headers": {"h" * 255: b"1", "big": b"x" * 125_000, "amqp.type": b"t" * 255}},
        {"headers": {"CC": b"elsewhere", "BCC": b"[]"}},
    ],
)
def test_a_row_at_the_limits_is_sent(place, row):
    to = sink(place, routing_key=None, exchange=place.exchange, retry_for=0)
    receipt = written(to, pa.RecordBatch.from_pylist([envelope({"value": b"v", **row})], ENVELOPE))
    assert (receipt.rows, place.depth()) == (1, 1)


def envelope(row):
    headers = [{"key": name, "value": value} for name, value in row.get("headers", {}).items()]
    return {**dict.fromkeys(ENVELOPE.names), **row, "headers": headers}


def test_an_unknown_exchange_fails_the_task(place):
    with pytest.raises(WriteError, match="NOT_FOUND"):
        written(sink(place, exchange="nowhere"), rows("a"))
    with pytest.raises(WriteError, match="NOT_FOUND"):
        sink(place, exchange="nowhere").check()


def test_what_was_not_confirmed_is_sent_again_when_the_broker_comes_back(fresh_rabbitmq):
    place = Place(fresh_rabbitmq)
    writer = sink(place, window=100).open(BATCH, 0, 0, VALUE)
    values = [f"v{n}" for n in range(20_000)]
    failure = []

    def work():
        try:
            for at in range(0, len(values), 500):
                writer.write(rows(*values[at : at + 500]))
            writer.close()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: place.depth() > 1000, within=30, why="it is in the middle")
    fresh_rabbitmq.restart()
    thread.join(120)
    assert not failure
    found = [body.decode() for _, _, body in place.take()]
    assert set(found) == set(values)
    assert len(found) - len(values) <= 100, "no more than the window may come twice"
