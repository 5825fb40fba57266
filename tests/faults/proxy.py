"""A TCP proxy that breaks the network on command."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from penstock.conformance.waiting import until
from tests.brokers.ports import free_port

CHUNK = 64 * 1024
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Link:
    """One client's connection and the one to the server that belongs to it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter | None) -> None:
        self.client = client
        self.server = server
        self.swallowed = False
        self.reply_owed: threading.Event | None = None

    def reset(self) -> None:
        for writer in filter(None, (self.client, self.server)):
            sock = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            writer.transport.abort()


class Proxy:
    """Stands before a server at 127.0.0.1: `with Proxy(server.port) as proxy: proxy.address`.

    All methods may be called from any thread and have taken effect when they return.

    Args:
        target: the server's port.
        port: its own; a free one unless given.
    """

    def __init__(self, target: int, port: int | None = None) -> None:
        self.target = target
        self.port = port or free_port()
        self.accepted = 0
        self.carried = 0
        self._links: set[Link] = set()
        self._mode = "pass"
        self._rate: float | None = None
        self._ambush: tuple[bytes, threading.Event] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        return len(self._links)

    def __enter__(self) -> "Proxy":
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._server.close)
        self._do(self._reset_all)
        until(lambda: not self._links, within=10, why="the proxy's connections are closed")
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def pass_through(self) -> None:
        """Heal. Connections that were half open are reset; new ones work."""

        def heal() -> None:
            self._mode, self._rate, self._ambush = "pass", None, None
            for link in [link for link in self._links if link.swallowed]:
                link.reset()

        self._do(heal)

    def cut(self) -> None:
        """Reset all connections, and each new one at once, until `pass_through`."""

        def strike() -> None:
            self._mode = "cut"
            self._reset_all()

        self._do(strike)

    def half_open(self) -> None:
        """Keep connections, old and new, but let nothing through any more, ever: both sides wait."""

        def strike() -> None:
            self._mode = "half open"
            for link in self._links:
                link.swallowed = True

        self._do(strike)

    def throttle(self, bytes_per_s: float) -> None:
        """Let this much through each second, each way on each connection."""

        def slow() -> None:
            self._rate = bytes_per_s

        self._do(slow)

    def cut_between_request_and_reply(self, containing: bytes = b"") -> threading.Event:
        """Deliver the next request that holds these bytes, then reset instead of replying.

        Once; the event is set when it has happened, and from then on all passes again.
        """
        happened = threading.Event()

        def arm() -> None:
            self._ambush = (containing, happened)

        self._do(arm)
        return happened

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        link = Link(writer, None)
        self._links.add(link)
        try:
            if self._mode == "cut":
                return
            link.swallowed = self._mode == "half open"
            answers, link.server = await asyncio.open_connection("127.0.0.1", self.target)
            up = self._pump(link, reader, link.server, upward=True)
            down = self._pump(link, answers, writer, upward=False)
            await asyncio.gather(up, down)
        except OSError:
            return  # either side has gone; the reset below tells the other
        finally:
            link.reset()
            self._links.discard(link)

    async def _pump(
        self,
        link: Link,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        upward: bool,
    ) -> None:
        while data := await reader.read(CHUNK):
            if link.swallowed:
                continue
            if not upward and link.reply_owed:
                link.reset()
                link.reply_owed.set()
                return
            if upward and self._ambush and self._ambush[0] in data:
                link.reply_owed = self._ambush[1]
                self._ambush = None
            await self._carry(data, link, writer)
        if writer.can_write_eof() and not link.swallowed:
            writer.write_eof()

    async def _carry(self, data: bytes, link: Link, writer: asyncio.StreamWriter) -> None:
        while data and not link.swallowed:
            size = len(data)
            if self._rate:
                # A tenth of a second's worth, so that a slow network drips instead of pausing.
                size = min(size, max(1, int(self._rate / 10)))
                await asyncio.sleep(size / self._rate)
            writer.write(data[:size])
            await writer.drain()
            self.carried += size
            data = data[size:]

    def _reset_all(self) -> None:
        for link in list(self._links):
            link.reset()

    def _do(self, action: Callable[[], None]) -> None:
        async def act() -> None:
            action()

        asyncio.run_coroutine_threadsafe(act(), self._loop).result(10)
