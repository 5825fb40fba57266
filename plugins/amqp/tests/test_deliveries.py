"""What is read from the wire is what pika reads, however the bytes are cut; in columns as one by one."""

import random
import struct
from datetime import UTC, datetime

import pika
import pytest
from pika import frame, spec

from penstock_amqp import frames
from penstock_amqp.columns import Ordinary
from penstock_amqp.deliveries import SwiftConnection
from penstock_amqp.fields import written
from penstock_amqp.messages import rows_of
from penstock_amqp.received import PROPERTIES, TABLE, TEXT, Received
from penstock_amqp.runs import joined

NUMBER = 1
CONSUMERS = ("tag-0", "tag-1", "a-longer-tag")
ORIGINS = {tag: f"amqp:queue-of-{tag}" for tag in CONSUMERS}


class Wire(SwiftConnection):
    """A connection with no socket: bytes are handed to it."""

    def __init__(self):
        self._frame_buffer = b""
        self.bytes_received = self.frames_received = 0
        self.connection_state = self.CONNECTION_OPEN
        self.slow, self.runs, self.columns = [], [], 0
        self.watch(NUMBER, self._keep)

    def _process_frame(self, value):
        self.slow.append(value)

    def _keep(self, messages):
        one_by_one = isinstance(messages, list)
        self.columns += 0 if one_by_one else len(messages)
        read = rows_of if one_by_one else Ordinary.run
        self.runs.append(read(messages, ORIGINS, "part"))

    def take(self, data):
        self._on_data_available(data)
        self._read()

    def take_in_pieces(self, data, chance, sizes):
        at = 0
        while at < len(data):
            size = chance.choice(sizes)
            self._on_data_available(data[at : at + size])
            if chance.random() < 0.5:
                self._read()
            at += size
        self._read()


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


def contents(*runs):
    """All that is known of messages; a map of headers' bytes would hide their order."""
    run = joined(runs)
    run.rows.validate(full=True)
    deliveries = None if run.deliveries is None else run.deliveries.to_pylist()
    return run.rows.to_pylist(), run.redelivered.to_pylist(), deliveries, run.sizes.tolist()


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
    for sizes in ([1, 7, 100, 4096], [100_000]):
        wire = Wire()
        wire.take_in_pieces(data, chance, sizes)
        read = rows_of([decoded(*each) for each in sent], ORIGINS, "part")
        assert contents(*wire.runs) == contents(read)
        assert len(wire.slow) == others
        assert wire.bytes_received == len(data)


TABLES = [
    {},
    {"a": 1, "t": {"b": [1, "x"]}},
    {"timestamp_in_ms": 1_700_000_000_123},
    {"timestamp_in_ms": 17, "x-delivery-count": 2},
    {"x-delivery-count": "often", "none": None},
]
TEXTS = [b"", b"text", "ünïcode".encode(), b"\xff\xfe no utf-8", b"x" * 255]
INSTANTS = [0, 1_700_000_000, 253402300800, 2**63 + 5]
"""The first two are times."""


def raw_property(chance, name, kind):
    if kind == TABLE:
        if chance.random() < 0.1:
            return struct.pack(">L", 3) + b"\x01a\x00"  # cannot be read
        return written(chance.choice([*TABLES, {"own": chance.random()}]))
    if kind == TEXT:
        text = chance.choice(TEXTS)
        return bytes([len(text)]) + text
    return (
        struct.pack(">Q", chance.choice(INSTANTS)) if name == "timestamp" else chance.randbytes(1)
    )


def raw_body(chance):
    """Of all sizes; some look like what stands around them on the wire."""
    inner = raw_message(random.Random(1), 10**6, b"within") if chance.random() < 0.3 else b""
    around = chance.choice([b"", b"\xce", b"\xce" * 20, b"\xce\x01\x00\x01\x00\x00\x00\x05"])
    return around + inner + chance.randbytes(chance.choice([0, 0, 1, 12, 200])) + around


def raw_frame(kind, payload, number=NUMBER):
    return struct.pack(">BHL", kind, number, len(payload)) + payload + b"\xce"


def raw_message(chance, n, body, piece=400, often=0.5):
    method = spec.Basic.Deliver(
        consumer_tag=chance.choice(CONSUMERS),
        delivery_tag=n,
        redelivered=chance.random() < 0.3,
        exchange=chance.choice(["", "orders"]),
        routing_key=chance.choice(["", "key", "ключ" * 20]),
    )
    flags, properties = 0, b""
    for name, flag, kind in PROPERTIES:
        if chance.random() < often:
            flags |= flag
            properties += raw_property(chance, name, kind)
    header = struct.pack(">HHQH", 60, 0, len(body), flags) + properties
    data = frame.Method(NUMBER, method).marshal() + raw_frame(2, header)
    return data + b"".join(raw_frame(3, body[at : at + piece]) for at in range(0, len(body), piece))


def between(chance):
    """What is no delivery of ours."""
    elsewhere = spec.Basic.Deliver(consumer_tag="t", delivery_tag=1, exchange="", routing_key="")
    returned = spec.Basic.Return(reply_code=312, reply_text="NO_ROUTE", exchange="", routing_key="")
    return chance.choice(
        [
            frame.Heartbeat().marshal(),
            frame.Method(NUMBER, spec.Basic.QosOk()).marshal(),
            frame.Method(2, elsewhere).marshal() + raw_frame(3, b"\xce\x01\x00\x01", 2),
            marshalled(returned, pika.BasicProperties(), b"back"),
        ]
    )


@pytest.mark.parametrize("often", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("odd", [0.0, 0.03, 0.3])
def test_columns_hold_what_is_read_one_by_one(penstock_seed, monkeypatch, often, odd):
    chance = random.Random(f"{penstock_seed}/{often}/{odd}")
    for _ in range(5):
        data = b""
        for n in range(150):
            large = chance.random() < odd / 2
            body = chance.randbytes(1500) if large else raw_body(chance)
            data += raw_message(chance, n + 1, body, often=often, piece=400 if large else 2000)
            if chance.random() < odd:
                data += between(chance)
        ways = []
        for fewest in (2, 10**9):
            monkeypatch.setattr(frames, "FEWEST", fewest)
            wire = Wire()
            wire.take_in_pieces(data, chance, [50, 3000, 40_000])
            slow = [(type(each).__name__, each.channel_number) for each in wire.slow]
            counts = (wire.bytes_received, wire.frames_received)
            ways.append((contents(*wire.runs), slow, counts))
            assert (wire.columns > 0) == (fewest == 2)
        assert ways[0] == ways[1]
        assert len(ways[0][0][0]) == 150


def test_ordinary_messages_are_read_in_columns_and_nothing_else_is(penstock_seed):
    chance = random.Random(penstock_seed)
    data = b"".join(raw_message(chance, n + 1, b"body", often=0.2) for n in range(500))
    wire = Wire()
    wire.take(data[:-10])
    assert wire.columns == 499
    wire.take(data[-10:])
    assert wire.columns == 499
    assert [row["value"] for row in contents(*wire.runs)[0]] == [b"body"] * 500


def test_a_content_header_that_is_longer_than_its_properties_is_read_one_by_one():
    method = spec.Basic.Deliver(consumer_tag="tag-0", delivery_tag=1, exchange="", routing_key="k")
    header = struct.pack(">HHQH", 60, 0, 4, 0) + b"more"
    one = frame.Method(NUMBER, method).marshal() + raw_frame(2, header) + raw_frame(3, b"body")
    wire = Wire()
    wire.take(one * 50)
    assert wire.columns == 0
    assert [row["value"] for row in contents(*wire.runs)[0]] == [b"body"] * 50


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
    method = spec.Basic.Deliver(consumer_tag="tag-0", delivery_tag=1, exchange="", routing_key="k")
    data = frame.Method(NUMBER, method).marshal()
    data += struct.pack(">BHL", 2, NUMBER, len(properties)) + properties + b"\xce"
    data += frame.Body(NUMBER, b"body").marshal()
    for count in (1, 50):
        wire = Wire()
        wire.take(data * count)
        for row in contents(*wire.runs)[0]:
            assert (
                row["headers"]
                == [
                    {"key": "amqp.types", "value": b'{"amqp.headers":"bytes"}'},
                    {"key": "amqp.headers", "value": raw},
                ][-len(row["headers"]) :]
            )
            assert (row["event_time"], row["value"]) == (datetime.fromtimestamp(7, UTC), b"body")
        assert wire.columns == (count if count > 1 else 0)


@pytest.mark.parametrize("said", ["abc", "7", -1, 2**63, 1.5, True, None, {"a": 1}])
def test_a_senders_own_delivery_count_is_not_believed(said):
    message = Received("t", 1, False, b"k", headers={"x-delivery-count": said})
    counted = Received("t", 2, True, b"k", headers={"x-delivery-count": 2})
    assert rows_of([message], {"t": "amqp:q"}, "part").deliveries is None
    assert rows_of([message, counted], {"t": "amqp:q"}, "part").deliveries.to_pylist() == [1, 3]


def test_other_channels_and_other_content_are_left_to_pika():
    wire = Wire()
    returned = spec.Basic.Return(reply_code=312, reply_text="NO_ROUTE", exchange="", routing_key="")
    wire.take(marshalled(returned, pika.BasicProperties(), b"back"))
    elsewhere = spec.Basic.Deliver(consumer_tag="t", delivery_tag=1, exchange="", routing_key="")
    wire.take(frame.Method(2, elsewhere).marshal())
    assert wire.runs == []
    assert [type(each).__name__ for each in wire.slow] == ["Method", "Header", "Body", "Method"]


def test_a_broken_frame_is_found():
    wire = Wire()
    broken = bytearray(frame.Heartbeat().marshal())
    broken[-1] = 0
    with pytest.raises(pika.exceptions.InvalidFrameError):
        wire.take(bytes(broken))
