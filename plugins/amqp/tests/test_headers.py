"""Headers of every type go from queue to queue as they were."""

import math
import random
import struct
from datetime import UTC, datetime
from decimal import Decimal

import pika
import pyarrow as pa
import pytest
from pika import data as theirs

from penstock.contracts import ENVELOPE, Batch, Context, Secret
from penstock.contracts.source import Limit
from penstock_amqp import fields
from penstock_amqp.headers import header_bytes, types_in, types_of, value_of
from penstock_amqp.outgoing import outgoing
from penstock_amqp.sink import AmqpSink
from penstock_amqp.source import AmqpSource

from .conftest import Place

SCALARS = (
    lambda chance: None,
    lambda chance: chance.random() < 0.5,
    lambda chance: chance.choice([0, -1, 255, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63)]),
    lambda chance: chance.randint(-(10**6), 10**6),
    lambda chance: chance.choice(["", "naïve", "7", "true", "null", '{"a":1}', "\x00"]),
    lambda chance: chance.choice([b"", b"text", b"\xff\x00", b"12"]),
    lambda chance: Decimal(chance.randint(-(2**31), 2**31 - 1)).scaleb(-chance.randint(0, 30)),
    lambda chance: datetime.fromtimestamp(chance.randint(0, 4 * 10**9), UTC),
)


def value(chance, depth=3):
    """Any value that pika can write."""
    if depth and chance.random() < 0.3:
        count = chance.randint(0, 4)
        if chance.random() < 0.5:
            return [value(chance, depth - 1) for _ in range(count)]
        return {f"n{n}": value(chance, depth - 1) for n in range(count)}
    return chance.choice(SCALARS)(chance)


def exact(value):
    """A value that differs where types do: True is not 1."""
    if isinstance(value, dict):
        return {name: exact(each) for name, each in value.items()}
    if isinstance(value, list):
        return [exact(each) for each in value]
    for kind in (bool, int, float, str, bytes, Decimal, datetime):
        if isinstance(value, kind):
            return (kind.__name__, kind(value) if kind is int else value)
    return value


def there_and_back(headers):
    """As an envelope carries them."""
    types = types_in([{"key": "amqp.types", "value": types_of(headers)}])
    return {name: value_of(header_bytes(each), types.get(name)) for name, each in headers.items()}


def table(kind, raw):
    body = b"\x01n" + kind + raw
    return struct.pack(">I", len(body)) + body


def test_a_table_is_read_and_written_as_pika_does(penstock_seed):
    chance = random.Random(penstock_seed)
    for _ in range(500):
        headers = {f"h{n}": value(chance) for n in range(chance.randint(0, 6))}
        pieces = []
        theirs.encode_table(pieces, headers)
        raw = b"".join(pieces)
        assert exact(fields.read(raw, 0)[0]) == exact(headers)
        assert fields.read(raw, 0)[1] == len(raw)
        assert exact(theirs.decode_table(fields.written(headers), 0)[0]) == exact(headers)


@pytest.mark.parametrize(
    ("kind", "form", "number"),
    [(b"b", "b", -7), (b"B", "B", 200), (b"U", "h", -300), (b"s", "h", -300), (b"u", "H", 60_000),
     (b"I", "i", -(2**31)), (b"i", "I", 2**32 - 1), (b"l", "q", -(2**63)), (b"L", "q", 2**63 - 1),
     (b"f", "f", 1.5), (b"d", "d", -2.75)],
)  # fmt: skip
def test_every_number_of_the_protocol_is_read_whole(kind, form, number):
    found, _ = fields.read(table(kind, struct.pack(f">{form}", number)), 0)
    assert exact(found) == exact({"n": number})


@pytest.mark.parametrize("number", [0.0, -1.25, 1e300, math.inf, -math.inf])
def test_floating_point_numbers_are_kept(number):
    headers = {"n": number, "t": {"l": [number, 1]}}
    assert exact(there_and_back(headers)) == exact(headers)
    assert exact(fields.read(fields.written(headers), 0)[0]) == exact(headers)


def test_the_envelope_keeps_every_type(penstock_seed):
    chance = random.Random(penstock_seed)
    for _ in range(500):
        headers = {f"h{n}": value(chance) for n in range(chance.randint(0, 6))}
        assert exact(there_and_back(headers)) == exact(headers)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [(b"no number", "json"), (b"text", "decimal"), (b'"soon"', "timestamp"), (b"[1]", {"0": "x"}),
     (b'{"a":1}', {"a": "bytes"}), (b"7", {"a": "decimal"}), (b"7", 7), (b"[" * 10_000, "json")],
)  # fmt: skip
def test_what_a_step_has_put_in_the_place_of_a_value_travels_as_text(raw, kind):
    assert value_of(raw, kind) == raw.decode()


def sent(**headers):
    """The message that a row with these headers becomes."""
    pairs = [{"key": name.replace("_", "."), "value": raw} for name, raw in headers.items()]
    row = {**dict.fromkeys(ENVELOPE.names), "value": b"body", "headers": pairs}
    rows = pa.RecordBatch.from_pylist([row], schema=ENVELOPE)
    (message,) = outgoing(AmqpSink(url=Secret("amqp://localhost/"), routing_key="q"), rows, "p", 0)
    return message


def test_what_no_field_can_hold_is_said_of_its_row():
    huge = sent(n=b'"1E+999999999"', amqp_types=b'{"n":"decimal"}')
    assert "has no field for" in huge.error
    assert "has no field for" in sent(n=b"9" * 20, amqp_types=b'{"n":"json"}').error
    many = sent(n=b"[" + b"0," * 40_000 + b"0]", amqp_types=b'{"n":"json"}')
    assert "at most 126000" in many.error, "as AMQP writes it, not as JSON does"


def test_a_senders_history_is_not_told_to_the_next_broker():
    message = sent(**{"x-death": b'[{"queue":"q"}]'}, n=b"7",
                   amqp_types=b'{"x-death":"json","n":"json"}')  # fmt: skip
    assert message.error is None
    assert message.properties.headers == {"x-death": '[{"queue":"q"}]', "n": 7}


@pytest.mark.server
def test_headers_of_all_types_go_from_queue_to_queue(rabbitmq, place, penstock_seed):
    chance = random.Random(penstock_seed)
    out = Place(rabbitmq)
    messages = {f"m{n}": {f"h{i}": value(chance) for i in range(6)} for n in range(200)}
    with place.channel() as channel:
        channel.confirm_delivery()
        for name, headers in messages.items():
            made = pika.BasicProperties(message_id=name, headers=headers, content_type="text/plain")
            channel.basic_publish("", place.queue, b"body", made, mandatory=True)
        floats = fields.Properties(message_id="floats", content_encoding="gzip", priority=4)
        floats.table = fields.written({"ratio": 0.25, "all": [1.5, {"x": -2.0}]})
        channel.basic_publish("", place.queue, b"body", floats, mandatory=True)
    rows = relayed(place, out, len(messages) + 1)
    arrived = {properties.message_id: properties for _, properties, _ in out.take()}
    assert {name: exact(arrived[name].headers) for name in messages} == {
        name: exact(headers) for name, headers in messages.items()
    }
    assert (arrived["floats"].content_encoding, arrived["floats"].priority) == ("gzip", 4)
    (told,) = [row["headers"] for row in rows if row["id"] == "floats"]
    assert {"key": "ratio", "value": b"0.25"} in told
    assert {"key": "all", "value": b'[1.5,{"x":-2.0}]'} in told


def relayed(place, out, count):
    """Everything of a queue through source and sink into another; what the source gave."""
    url = Secret(place.server.url)
    consumer = AmqpSource(url=url, queue=(place.queue,)).consumer(Context(), 0)
    writer, seen = None, []
    try:
        while len(seen) < count:
            lease = consumer.receive(Limit(rows=1000, bytes=2**24), 10.0)
            assert lease is not None, f"{len(seen)} of {count} came"
            if writer is None:
                sink = AmqpSink(url=url, routing_key=out.queue)
                writer = sink.open(Batch(Context(), 0), 0, 0, lease.rows.schema)
            writer.write(lease.rows)
            seen += lease.rows.to_pylist()
            lease.acknowledge()
        receipt = writer.close()
        assert receipt.rejected == ()
    finally:
        consumer.close()
    return seen
