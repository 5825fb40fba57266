"""A connection and a channel to a broker, run by the thread that owns it.

Over pika's asynchronous connection, which does in three quarters of the time what its blocking
one does: the owner calls `pump` and gets its callbacks from within.
"""

from __future__ import annotations

import logging
import re
import ssl
import time
from collections.abc import Callable
from typing import Any

import pika
import pika.credentials
import pika.exceptions
from pika.adapters.select_connection import IOLoop
from pika.channel import Channel

from penstock.contracts.errors import (
    EphemeralReadError,
    EphemeralWriteError,
    PenstockError,
    ReadError,
    WriteError,
)
from penstock_amqp.address import Address, Endpoint
from penstock_amqp.columns import Ordinary
from penstock_amqp.deliveries import SwiftConnection
from penstock_amqp.received import Received

log = logging.getLogger("penstock.amqp")
logging.getLogger("pika").setLevel(logging.CRITICAL)  # what it logs, it raises as well

_PERMANENT_CONNECTION = {403: "access refused", 530: "not allowed"}
_PROBABLE = (
    pika.exceptions.ProbableAuthenticationError,
    pika.exceptions.ProbableAccessDeniedError,
)
_PERMANENT_CHANNEL = {
    403: "access refused",
    404: "not found",
    406: "precondition failed",
}


class Link:
    """One connection with one channel. Every method runs on the owner's thread.

    Args:
        address: where to connect.
        name: how the broker's tools show the connection.
        writing: whether errors are those of a sink.
    """

    def __init__(self, address: Address, name: str, writing: bool = False) -> None:
        self._address = address
        self._name = name
        self._ephemeral = EphemeralWriteError if writing else EphemeralReadError
        self._permanent = WriteError if writing else ReadError
        self._loop = IOLoop()
        self._loop.activate_poller()
        self._connection: SwiftConnection | None = None
        self._lost: PenstockError | None = None
        self._closing = False
        self.channel: Channel | None = None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether the channel is open; false for ever once it was lost."""
        return self._lost is None and self.channel is not None and self.channel.is_open

    def pump(self, seconds: float, unread: bool = False) -> None:
        """Serve the connection: waits at most so long for something to happen.

        Args:
            seconds: how long.
            unread: only collect what comes, as long as it is not much; see `read`.

        Raises:
            EphemeralReadError: the connection or channel is lost.
            ReadError: the broker refused (credentials, queue).
        """
        self._turn(seconds, unread)
        if self._lost is not None:
            raise self._lost

    def until(self, done: Callable[[], Any], within: float, what: str) -> None:
        """Pump until something is true."""
        deadline = time.monotonic() + within
        while not done():
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._ephemeral(f"the broker did not answer in {within:g} s: {what}")
            self.pump(left)

    def call(self, method: Callable[..., Any], what: str, **arguments: Any) -> Any:
        """A request of the channel that has a reply; returns the reply's frame."""
        replies: list[Any] = []
        self.raise_if_lost()
        method(callback=replies.append, **arguments)
        self.until(lambda: replies, self._address.connect_timeout, what)
        return replies[0]

    def watch(self, taken: Callable[[Ordinary | list[Received]], None]) -> None:
        """Hand every delivery over as it comes off the wire, many together."""
        assert self._connection is not None
        assert self.channel is not None
        self._connection.watch(self.channel.channel_number, taken)

    @property
    def arrived(self) -> int:
        """Bytes that have come since `watch`, read or not."""
        return self._connection.arrived if self._connection is not None else 0

    @property
    def unread(self) -> int:
        """How many of these bytes are not read."""
        return self._connection.unread if self._connection is not None else 0

    def read(self) -> None:
        """Hand over what came while `pump` left it unread."""
        if self._connection is not None:
            self._connection.read()

    def lose(self, error: PenstockError) -> None:
        """Give the connection up: the next `pump` raises this."""
        if self._lost is None:
            self._lost = error

    def close(self) -> None:
        """Send what waits to be sent, close, free the sockets. Idempotent; never raises."""
        self._closing = True
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                if connection.is_open:
                    connection.close()
                deadline = time.monotonic() + 5
                while not connection.is_closed and time.monotonic() < deadline:
                    self._turn(0.5)
                    connection.read()
                if not connection.is_closed:
                    connection.abandon()
                    self._turn(0.0)
            except pika.exceptions.AMQPError as error:
                log.debug("closing: %r", error)
        if self._loop is not None:
            loop, self._loop = self._loop, None  # type: ignore[assignment]
            loop.deactivate_poller()
            loop.close()

    def raise_if_lost(self) -> None:
        """Raise what ended this connection, if it has ended."""
        if self._lost is not None:
            raise self._lost
        if not self.alive:
            raise self._ephemeral("the connection is closed")

    def _turn(self, seconds: float, unread: bool = False) -> None:
        timer = self._loop.call_later(max(0.0, seconds), _nothing)
        try:
            self._loop.poll()
            if not unread:
                self.read()
            self._loop.process_timeouts()
        finally:
            self._loop.remove_timeout(timer)

    def _open(self) -> None:
        failures: list[PenstockError] = []
        for endpoint in self._address.endpoints():
            try:
                self._connect(endpoint)
                return
            except self._ephemeral as error:
                failures.append(error)
        raise failures[-1]

    def _connect(self, endpoint: Endpoint) -> None:
        self._lost = None
        opened: list[Channel] = []
        self._connection = SwiftConnection(
            parameters(self._address, endpoint, self._name),
            on_open_callback=lambda c: c.channel(on_open_callback=opened.append),
            on_open_error_callback=lambda c, error: self._failed(c, error, endpoint),
            on_close_callback=lambda c, error: self._failed(c, error, endpoint),
            custom_ioloop=self._loop,
        )
        within = 2 * self._address.connect_timeout
        self.until(lambda: opened, within, f"connecting to {endpoint!r}")
        self.channel = opened[0]
        self.channel.add_on_close_callback(self._channel_closed)

    def _failed(self, connection: object, error: BaseException | str, endpoint: Endpoint) -> None:
        # An attempt at another host that was given up may fail later.
        if self._closing or self._lost is not None or connection is not self._connection:
            return
        told = getattr(connection, "server_capabilities", None) or {}
        tells = bool(told.get("authentication_failure_close"))
        self._lost = self._translate(error, endpoint, tells)

    def _translate(
        self, error: BaseException | str, endpoint: Endpoint, tells: bool
    ) -> PenstockError:
        """What an error of pika's means; `tells`: this broker says so when it refuses a login."""
        reason = _innermost(error)
        where = repr(endpoint)
        if isinstance(reason, _PROBABLE) and not _refused(reason, tells):
            return self._ephemeral(
                f"the connection was lost while logging in: {reason.args[0]}", got=where
            )
        if isinstance(
            reason,
            pika.exceptions.ProbableAuthenticationError | pika.exceptions.AuthenticationError,
        ):
            return self._permanent(
                "the broker does not take the credentials", got=where, fix="check user and password"
            )
        if isinstance(reason, pika.exceptions.ProbableAccessDeniedError):
            return self._permanent(
                "the broker refuses access to the virtual host",
                got=where,
                fix="check vhost and the user's permissions",
            )
        if isinstance(reason, ssl.SSLCertVerificationError):
            return self._permanent(
                f"the server's certificate is not trusted: {reason.verify_message}",
                got=where,
                fix="set ca to the authority's certificate, or server_name to the name in it",
            )
        if isinstance(reason, ssl.SSLError):
            return self._permanent(
                f"TLS failed: {reason.reason or reason}", got=where, fix="check the port and tls"
            )
        if isinstance(reason, pika.exceptions.ConnectionClosedByBroker):
            if reason.reply_code in _PERMANENT_CONNECTION:
                return self._permanent(
                    f"the broker closed the connection: {reason.reply_text}", got=where
                )
            return self._ephemeral(
                f"the broker closed the connection: {reason.reply_text}", got=where
            )
        text = str(reason) or type(reason).__name__
        return self._ephemeral(f"the connection failed: {text}", got=where)

    def _channel_closed(self, channel: Channel, reason: BaseException) -> None:
        if self._closing or self._lost is not None:
            return
        if isinstance(reason, pika.exceptions.ChannelClosedByBroker):
            text = reason.reply_text
            if "delivery acknowledgement" in text and "timed out" in text:
                self._lost = self._ephemeral(
                    "the broker took its messages back: they were unacknowledged for too long",
                    got=text,
                    fix="make batches smaller (max_rows), raise the broker's consumer_timeout, or "
                    "choose delivery=pessimistic, which acknowledges at once",
                )
            elif reason.reply_code in _PERMANENT_CHANNEL:
                self._lost = self._permanent(f"the broker refuses: {text}")
            else:
                self._lost = self._ephemeral(f"the broker closed the channel: {text}")
        elif not isinstance(reason, pika.exceptions.ConnectionClosed):
            self._lost = self._ephemeral(f"the channel is closed: {reason!r}")


def parameters(address: Address, endpoint: Endpoint, name: str) -> pika.ConnectionParameters:
    """pika's view of an endpoint."""
    credentials: Any = pika.PlainCredentials(endpoint.user, endpoint.password)
    if address.sasl == "EXTERNAL":
        credentials = pika.credentials.ExternalCredentials()
    options = None
    if endpoint.tls:
        context = ssl.create_default_context(cafile=address.ca)
        if address.certificate is not None:
            secret = address.key_password
            context.load_cert_chain(
                address.certificate, address.key, secret.reveal() if secret else None
            )
        options = pika.SSLOptions(context, address.server_name or endpoint.host)
    return pika.ConnectionParameters(
        host=endpoint.host,
        port=endpoint.port,
        virtual_host=endpoint.vhost,
        credentials=credentials,
        ssl_options=options,
        heartbeat=max(1, round(address.heartbeat)),
        socket_timeout=address.connect_timeout,
        stack_timeout=address.connect_timeout * 1.5,
        connection_attempts=1,
        client_properties={"connection_name": name, "product": "Penstock"},
    )


def _refused(reason: BaseException, tells: bool) -> bool:
    """Whether a login was refused, or only cut off: pika takes either for a refusal."""
    said = re.match(r"ConnectionClosedByBroker: \((\d+)\)", str(reason.args[0]))
    if said is not None:
        return int(said[1]) in _PERMANENT_CONNECTION
    return not tells


def _innermost(error: Any) -> Any:
    """What really happened, under pika's layers of connection workflow errors."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        for inner in (
            getattr(error, "exceptions", None),
            getattr(error, "exception", None),
            error.__cause__ if isinstance(error, BaseException) else None,
        ):
            if isinstance(inner, list | tuple) and inner:
                error = inner[-1]
                break
            if isinstance(inner, BaseException):
                error = inner
                break
        else:
            args = getattr(error, "args", ())
            if len(args) == 1 and isinstance(args[0], BaseException):
                error = args[0]
    return error


def _nothing() -> None:
    return None
