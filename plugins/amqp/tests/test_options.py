"""What the options refuse, without a broker."""

import subprocess
import sys

import pytest

from penstock.contracts import Secret
from penstock.contracts.errors import OptionError, SchemaError
from penstock.contracts.options import parse
from penstock_amqp.sink import AmqpSink
from penstock_amqp.source import AmqpSource


def test_the_connector_imports_no_client():
    code = "import penstock_amqp, sys; assert 'pika' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_password_in_clear_to_another_machine_is_refused():
    source = AmqpSource(queue=("q",), hosts=("broker.example.org",), password=Secret("x"))
    with pytest.raises(OptionError, match="in clear"):
        source.endpoints()
    allowed = AmqpSource(queue=("q",), hosts=("broker.example.org",), plaintext=True)
    assert allowed.endpoints()[0].port == 5672


def test_a_url_is_read_in_all_its_parts():
    source = AmqpSource(queue=("q",), url=Secret("amqps://me:p%40ss@host.example/a%2Fb"))
    found = source.endpoints()[0]
    assert (found.host, found.port, found.vhost, found.tls) == ("host.example", 5671, "a/b", True)
    assert (found.user, found.password) == ("me", "p@ss")
    assert "p@ss" not in repr(found)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("amqp://user:pa/ss@host/", "%2F"),
        ("amqp://user:12/ss@host/", "%2F"),
        ("amqp://user:p#ss@host/", "%23"),
        ("amqp://user:1?ss@host/", "%3F"),
        ("amqp://user:ss@[host/", "%2F"),
        ("amqp://user:ss@host:port/", "%2F"),
        ("amqp://user:ss@host/vhost?heartbeat=5", "heartbeat=5"),
        ("amqp://user:ss@host/#vhost", "%23"),
    ],
)
def test_a_url_that_cannot_be_read_is_told_without_a_part_of_the_password(url, says):
    with pytest.raises(OptionError) as caught:
        AmqpSource(queue="q", url=Secret(url), tls=False).endpoints()
    assert says in str(caught.value)
    assert "ss@" not in str(caught.value)
    assert "pa" not in str(caught.value).replace("password", "")
    assert caught.value.__context__ is None


def test_hosts_are_tried_in_the_order_given():
    source = parse(AmqpSource, {"queue": "q", "hosts": "127.0.0.1:1,127.0.0.1,[::1]:9"})
    assert [(e.host, e.port) for e in source.endpoints()] == [
        ("127.0.0.1", 1),
        ("127.0.0.1", 5672),
        ("::1", 9),
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"url": "amqp://localhost", "vhost": "/x"},
        {"certificate": "c.pem"},
        {"sasl": "EXTERNAL"},
        {"declare_arguments": '{"x-queue-type": "quorum"}'},
        {"queue": ""},
    ],
)
def test_contradictory_options_are_refused(given):
    with pytest.raises(OptionError):
        parse(AmqpSource, {"queue": "q", **given})


def test_two_ways_to_route_are_one_too_many():
    with pytest.raises(OptionError, match="routing_key"):
        AmqpSink(routing_key="a", routing_key_field="b")


def test_rows_without_a_body_are_refused():
    import pyarrow as pa

    with pytest.raises(SchemaError, match="body"):
        AmqpSink().accepts(pa.schema([("a", pa.int64())]))
    with pytest.raises(SchemaError, match="routing_key_field"):
        AmqpSink(routing_key_field="to").accepts(pa.schema([("value", pa.binary())]))
    taken = AmqpSink().accepts(pa.schema([("value", pa.string()), ("a", pa.int64())]))
    assert taken.field("value").type == pa.binary()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {"prefetch": 7, "declare": True, "heartbeat": 9}, True),
        ({"password": Secret("a")}, {"password": Secret("b"), "user": "b"}, True),
        ({}, {"queue": ("r",)}, False),
        ({"queue": ("q", "r")}, {"queue": ("r", "s")}, True),
        ({"vhost": "a"}, {"vhost": "b"}, False),
        ({"hosts": ("a", "b")}, {"hosts": ("b", "c")}, True),
        ({"hosts": ("a",)}, {"hosts": ("b",)}, False),
        ({"hosts": ("a:5672",)}, {"url": Secret("amqp://me:secret@a/%2F")}, True),
        ({"url": Secret("${env:NOT_SET}")}, {"url": Secret("${env:NOT_SET}"), "prefetch": 1}, True),
        ({"url": Secret("${env:NOT_SET}")}, {"url": Secret("${env:NOT_SET_2}")}, False),
    ],
)
def test_sources_of_one_queue_are_known_by_server_and_name(one, other, same):
    first = AmqpSource(**{"queue": ("q",), **one}).takes_from()
    second = AmqpSource(**{"queue": ("q",), **other}).takes_from()
    assert any(each in first for each in second) is same
    assert "secret" not in repr(second)
