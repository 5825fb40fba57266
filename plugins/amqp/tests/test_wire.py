"""Link, consumer and wire reading together, against a scripted peer that speaks AMQP's frames."""

import socket
import threading

import pika
import pytest
from pika import frame, spec

from penstock.contracts import Context, Limit
from penstock_amqp.source import AmqpSource


class Peer(threading.Thread):
    """Answers a consumer's requests, delivers what it is told, and notes acknowledgements."""

    def __init__(self, messages, polite):
        super().__init__(daemon=True)
        self._polite = polite
        self._messages = messages
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.acknowledged = []
        self.prefetch = []
        self._buffer = b""

    def run(self):
        self._socket, _ = self._listener.accept()
        with self._listener, self._socket:
            self._read_exactly(8)
            self._send(0, spec.Connection.Start(0, 9, {}, b"PLAIN", b"en_US"))
            while (method := self._method()) is not None:
                if self._answer(*method):
                    return

    def _answer(self, channel, method):
        replies = {
            "Connection.StartOk": lambda: spec.Connection.Tune(2047, 131072, 0),
            "Connection.Open": spec.Connection.OpenOk,
            "Channel.Open": spec.Channel.OpenOk,
            "Queue.Declare": lambda: spec.Queue.DeclareOk("q", len(self._messages), 0),
            "Basic.Qos": spec.Basic.QosOk,
            "Basic.Cancel": lambda: spec.Basic.CancelOk(method.consumer_tag),
            "Basic.Consume": lambda: spec.Basic.ConsumeOk(method.consumer_tag),
        }
        if self._polite:
            replies["Channel.Close"] = spec.Channel.CloseOk
            replies["Connection.Close"] = spec.Connection.CloseOk
        if method.NAME == "Basic.Ack":
            self.acknowledged.append((method.delivery_tag, method.multiple))
        if method.NAME == "Basic.Qos":
            self.prefetch.append(method.prefetch_count)
        if method.NAME in replies:
            self._send(channel, replies[method.NAME]())
        if method.NAME == "Basic.Consume" and len(self.prefetch) == 1:
            self._deliver(channel, method.consumer_tag)
        return method.NAME == "Connection.Close" and self._polite

    def _deliver(self, channel, tag):
        data = b""
        for number, (properties, body) in enumerate(self._messages, 1):
            method = spec.Basic.Deliver(tag, number, number == 2, "", "q")
            data += frame.Method(channel, method).marshal()
            data += frame.Header(channel, len(body), properties).marshal()
            for at in range(0, len(body), 100_000):
                data += frame.Body(channel, body[at : at + 100_000]).marshal()
            data += frame.Heartbeat().marshal()
        self._socket.sendall(data)

    def _send(self, channel, method):
        self._socket.sendall(frame.Method(channel, method).marshal())

    def _method(self):
        while True:
            used, value = frame.decode_frame(self._buffer)
            if value is None:
                more = self._socket.recv(65536)
                if not more:
                    return None
                self._buffer += more
                continue
            self._buffer = self._buffer[used:]
            if isinstance(value, frame.Method):
                return value.channel_number, value.method

    def _read_exactly(self, count):
        while len(self._buffer) < count:
            self._buffer += self._socket.recv(count - len(self._buffer))
        self._buffer = self._buffer[count:]


@pytest.fixture(params=[True, False], ids=["polite", "silent-at-the-end"])
def peer(request):
    bodies = [b"one", b"", b"x" * 300_000]
    messages = [(pika.BasicProperties(message_id=f"m{n}"), b) for n, b in enumerate(bodies)]
    peer = Peer(messages, request.param)
    peer.start()
    yield peer
    peer.join(10)
    assert not peer.is_alive(), "the connection was not closed"


def test_messages_come_off_the_wire_whole_and_are_acknowledged_cumulatively(peer):
    consumer = AmqpSource(queue=("q",), hosts=(f"127.0.0.1:{peer.port}",)).consumer(Context(), 0)
    try:
        assert consumer.depth() == 3
        consumer.window(Limit(rows=1000, bytes=10**7))
        leases = []
        while sum(lease.rows.num_rows for lease in leases) < 3:
            lease = consumer.receive(Limit(rows=10), 5)
            assert lease is not None, "nothing came within five seconds"
            leases.append(lease)
        rows = [row for lease in leases for row in lease.rows.to_pylist()]
        assert [row["id"] for row in rows] == ["m0", "m1", "m2"]
        assert [len(row["value"]) for row in rows] == [3, 0, 300_000]
        assert [row["stamp"]["position"] for row in rows] == [1, 2, 3]
        flags = [flag for lease in leases for flag in lease.redelivered.to_pylist()]
        assert flags == [False, True, False]
        leases[-1].acknowledge()
    finally:
        consumer.close()
    peer.join(10)
    assert peer.acknowledged == [(3, True)]
