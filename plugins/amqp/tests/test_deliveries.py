"""What is read from the wire is what pika reads, however the bytes are cut."""

import random
import struct
from datetime import UTC, datetime

import pika
import pytest
from pika import frame, spec

from penstock_amqp.deliveries import Received, SwiftConnection
from penstock_amqp.messages import rows_of

NUMBER = 1


class Wire(SwiftConnection):
    """A connection with no socket: bytes are handed to it."""

    def __init__(self):
        self._frame_buffer = b""
        self.bytes_received = self.frames_received = 0
        self.connection_state = self.CONNECTION_OPEN
        self.slow = []

    def _process_frame(self, value):
        self.slow.append(value)


def message(random, n):
    names = ("content_type", "correlation_id", "reply_to", "expiration", "message_id", "type")
    properties = pika.BasicProperties(
        **{name: f"{name}-{n}" for name in names if random.random() < 0.4},
        delivery_mode=random.choice([None, 1, 2]),
        priority=random.choice([None, 0, 7]),
        timestamp=random.choice([None, 1_700_000_000]),
        user_id=random.choice([None, "guest"]),
        app_id=random.choice([None, "ünïcode"]),
        content_encoding=random.choice([None, "gzip"]),
        cluster_id=random.choice([None, "c"]),
        headers=random.choice(
            [None, {}, {"a": 1, "t": {"b": [1, "x"]}, "at": datetime(2024, 1, 1, tzinfo=UTC)}]
        ),
    )
    method = spec.Basic.Deliver(
        consumer_tag=f"tag-{n % 2}",
        delivery_tag=n + 1,
        redelivered=bool(n % 3),
        exchange=random.choice(["", "orders"]),
        routing_key=random.choice(["", "key", "ключ"]),
    )
    return method, properties, random.randbytes(random.choice([0, 1, 200, 5000]))


def marshalled(method, properties, body, piece=2000):
    data = frame.Method(NUMBER, method).marshal()
    data += frame.Header(NUMBER, len(body), properties).marshal()
    for at in range(0, len(body), piece):
        data += frame.Body(NUMBER, body[at : at + piece]).marshal()
    return data


def fields(received):
    return {name: getattr(received, name) for name in Received.__slots__ if name != "__weakref__"}


def decoded(method, properties, body):
    """As pika reads it back, empty headers as none."""
    header = frame.decode_frame(frame.Header(NUMBER, len(body), properties).marshal())[1]
    return Received.of(method, header.properties, body)


def test_any_message_in_any_pieces_is_what_pika_reads(penstock_seed):
    chance = random.Random(penstock_seed)
    sent = [message(chance, n) for n in range(300)]
    data, others = b"", 0
    for each in sent:
        data += marshalled(*each)
        if chance.random() < 0.1:
            data += frame.Heartbeat().marshal()
            others += 1
    wire, taken = Wire(), []
    wire.watch(NUMBER, taken.append)
    at = 0
    while at < len(data):
        size = chance.choice([1, 7, 100, 4096])
        wire._on_data_available(data[at : at + size])
        at += size
    assert [fields(each) for each in taken] == [fields(decoded(*each)) for each in sent]
    assert len(wire.slow) == others
    assert wire.bytes_received == len(data)


def nested(depth):
    inner = b""
    for _ in range(depth):
        inner = b"\x01aF" + struct.pack(">L", len(inner)) + inner
    return inner


@pytest.mark.parametrize(
    "raw",
    [
        b"\x04whenT" + struct.pack(">Q", 1_700_000_000_000_000),  # a year of many digits
        b"\x04whenT" + struct.pack(">Q", 2**64 - 1),
        b"\x01a\x00",  # a type that nobody knows
        b"\x01aS" + struct.pack(">L", 500) + b"short",
        nested(5000),
    ],
)
def test_headers_that_cannot_be_read_are_kept_as_bytes_and_stop_nobody(raw):
    properties = struct.pack(">HHQH", 60, 0, 4, 0x2040) + struct.pack(">L", len(raw)) + raw
    properties += struct.pack(">Q", 7)
    method = spec.Basic.Deliver(consumer_tag="t", delivery_tag=1, exchange="", routing_key="k")
    data = frame.Method(NUMBER, method).marshal()
    data += struct.pack(">BHL", 2, NUMBER, len(properties)) + properties + b"\xce"
    data += frame.Body(NUMBER, b"body").marshal()
    wire, taken = Wire(), []
    wire.watch(NUMBER, taken.append)
    wire._on_data_available(data)
    (found,) = taken
    assert (found.headers, found.timestamp, found.body) == ({"amqp.headers": raw}, 7, b"body")


@pytest.mark.parametrize("said", ["abc", "7", -1, 2**63, 1.5, True, None, {"a": 1}])
def test_a_senders_own_delivery_count_is_not_believed(said):
    message = Received("t", 1, False, b"k", headers={"x-delivery-count": said})
    counted = Received("t", 2, True, b"k", headers={"x-delivery-count": 2})
    assert rows_of([message], {"t": "amqp:q"}, "part")[2] is None
    assert rows_of([message, counted], {"t": "amqp:q"}, "part")[2].to_pylist() == [1, 3]


def test_other_channels_and_other_content_are_left_to_pika():
    wire, taken = Wire(), []
    wire.watch(NUMBER, taken.append)
    returned = spec.Basic.Return(reply_code=312, reply_text="NO_ROUTE", exchange="", routing_key="")
    wire._on_data_available(marshalled(returned, pika.BasicProperties(), b"back"))
    elsewhere = spec.Basic.Deliver(consumer_tag="t", delivery_tag=1, exchange="", routing_key="")
    wire._on_data_available(frame.Method(2, elsewhere).marshal())
    assert taken == []
    assert [type(each).__name__ for each in wire.slow] == ["Method", "Header", "Body", "Method"]


def test_a_broken_frame_is_found():
    wire = Wire()
    wire.watch(NUMBER, print)
    broken = bytearray(frame.Heartbeat().marshal())
    broken[-1] = 0
    with pytest.raises(pika.exceptions.InvalidFrameError):
        wire._on_data_available(bytes(broken))
