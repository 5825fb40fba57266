import contextlib
import socket
import socketserver
import threading
import time

import pytest

from penstock.conformance.waiting import until
from tests.faults.proxy import Proxy


class Echo(socketserver.StreamRequestHandler):
    """Answers each line with the same line, and remembers it."""

    def handle(self):
        with contextlib.suppress(ConnectionError):
            for line in self.rfile:
                self.server.heard.append(line)
                self.wfile.write(line)


@pytest.fixture
def server():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        server.heard = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(server):
    with Proxy(server.server_address[1]) as proxy:
        yield proxy


@pytest.fixture
def connect(proxy):
    opened = []

    def connection(timeout=5):
        opened.append(socket.create_connection(("127.0.0.1", proxy.port), timeout=timeout))
        return opened[-1]

    yield connection
    for sock in opened:
        sock.close()


def ask(connection, line=b"hello\n"):
    connection.sendall(line)
    answer = b""
    while len(answer) < len(line):
        portion = connection.recv(4096)
        if not portion:
            raise ConnectionResetError("closed by the other side")
        answer += portion
    return answer


def test_it_passes_both_ways(connect, proxy):
    connection = connect()
    assert ask(connection) == b"hello\n"
    assert ask(connection, b"x" * 300_000 + b"\n") == b"x" * 300_000 + b"\n"
    assert proxy.accepted == 1
    # It counts a piece once that is on its way, which the client may see first.
    until(lambda: proxy.carried == 2 * (6 + 300_001), within=5, why="the proxy counts both ways")


def test_the_end_of_one_side_reaches_the_other(connect, proxy):
    connection = connect()
    connection.sendall(b"last\n")
    connection.shutdown(socket.SHUT_WR)
    assert connection.makefile("rb").read() == b"last\n"
    until(lambda: proxy.connections == 0, within=5, why="the proxy forgets the connection")


def test_a_cut_resets_old_and_new_connections_until_healed(connect, proxy):
    old = connect()
    ask(old)
    proxy.cut()
    with pytest.raises(ConnectionError):
        ask(old)
    with pytest.raises(ConnectionError):
        ask(connect())
    proxy.pass_through()
    assert ask(connect()) == b"hello\n"


def test_half_open_connections_stay_silent_and_are_reset_when_healed(connect, proxy, server):
    old = connect()
    ask(old)
    proxy.half_open()
    new = connect()
    for connection in (old, new):
        connection.settimeout(0.2)
        connection.sendall(b"into the void\n")
        with pytest.raises(TimeoutError):
            connection.recv(1)
    assert server.heard == [b"hello\n"]
    proxy.pass_through()
    for connection in (old, new):
        connection.settimeout(5)
        with pytest.raises(ConnectionError):
            ask(connection)
    assert ask(connect()) == b"hello\n"


def test_a_throttled_connection_is_as_slow_as_told(connect, proxy):
    connection = connect()
    proxy.throttle(10_000)
    began = time.monotonic()
    ask(connection, b"x" * 4_999 + b"\n")
    took = time.monotonic() - began
    assert 0.9 < took < 20
    proxy.pass_through()
    began = time.monotonic()
    ask(connection, b"x" * 99_999 + b"\n")
    assert time.monotonic() - began < 5


def test_a_request_is_delivered_and_its_reply_is_not(connect, proxy, server):
    connection, other = connect(), connect()
    happened = proxy.cut_between_request_and_reply(containing=b"commit")
    assert ask(connection, b"begin\n") == b"begin\n"
    assert not happened.is_set()
    with pytest.raises(ConnectionError):
        ask(connection, b"commit\n")
    assert happened.wait(5)
    assert server.heard == [b"begin\n", b"commit\n"]
    assert ask(other, b"commit\n") == b"commit\n"


def test_a_server_that_is_down_shows_as_a_reset():
    # The reset may come while the client is still connecting.
    with (
        Proxy(target=1) as proxy,
        pytest.raises(ConnectionError),
        socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as client,
    ):
        ask(client)
