"""Where the broker is and how to log in: what source and sink share. Loads no client."""

from __future__ import annotations

from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit

from attrs import evolve, frozen

from penstock.contracts import Configured, Secret, at_least, connector, option
from penstock.contracts.errors import OptionError
from penstock.contracts.hosts import is_loopback

PORT, TLS_PORT = 5672, 5671


@frozen
class Endpoint:
    """One broker, with everything a connection needs but the TLS files."""

    host: str
    port: int
    vhost: str
    user: str
    password: str
    tls: bool

    def __repr__(self) -> str:
        return f"Endpoint({'amqps' if self.tls else 'amqp'}://{self.host}:{self.port}/{self.vhost})"


@connector
class Address(Configured):
    """The broker's address, as one URL or in parts."""

    url: Secret | None = option(
        default=None,
        doc="amqp://user:password@host:port/vhost, or amqps:// for TLS; instead of the parts.",
        example="${env:AMQP_URL}",
    )
    hosts: tuple[str, ...] = option(
        default=("localhost",),
        doc="Brokers of one cluster, each `host` or `host:port`; tried in this order.",
        example="rabbit-1,rabbit-2:5673",
    )
    vhost: str = option(default="/", doc="The virtual host.")
    user: str = option(default="guest", doc="The user to log in as.")
    password: Secret | None = option(default=None, doc="The user's password.")
    sasl: Literal["PLAIN", "EXTERNAL"] = option(
        default="PLAIN",
        doc="How to log in: PLAIN with user and password, EXTERNAL with the client certificate.",
    )
    tls: bool = option(
        default=False, doc="Speak TLS; the server's certificate and name are always verified."
    )
    ca: str | None = option(
        default=None, doc="PEM file of trusted certificates; the system's unless given."
    )
    certificate: str | None = option(default=None, doc="PEM file of the client's certificate.")
    key: str | None = option(default=None, doc="PEM file of the client's private key.")
    key_password: Secret | None = option(default=None, doc="What unlocks the private key.")
    server_name: str | None = option(
        default=None, doc="The name in the server's certificate, if it is not the host."
    )
    plaintext: bool = option(
        default=False,
        doc="Allows a password to travel without TLS to another machine. Do not, outside a "
        "network that you trust.",
    )
    heartbeat: float = option(
        default=30.0,
        unit="seconds",
        doc="A connection that is silent for about twice this long counts as lost.",
        check=at_least(1),
    )
    connect_timeout: float = option(
        default=10.0, unit="seconds", doc="How long one attempt to connect may take."
    )

    def settle(self) -> None:
        given = [
            name
            for name, value, default in (
                ("hosts", self.hosts, ("localhost",)),
                ("vhost", self.vhost, "/"),
                ("user", self.user, "guest"),
                ("password", self.password, None),
                ("tls", self.tls, False),
            )
            if value != default
        ]
        if self.url is not None and given:
            raise OptionError(
                f"url and {', '.join(given)} both say where the broker is",
                fix="give the url, or the parts",
            )
        if (self.certificate is None) != (self.key is None):
            raise OptionError(
                "certificate and key belong together",
                fix="give both, or neither",
            )
        if self.sasl == "EXTERNAL" and self.certificate is None:
            raise OptionError(
                "sasl=EXTERNAL logs in with a client certificate, and there is none",
                fix="add certificate and key",
            )

    def endpoints(self) -> list[Endpoint]:
        """Every broker to try, in order. Reveals the password: keep it in no attribute.

        Raises:
            OptionError: the url cannot be read, or a password would travel in clear.
        """
        found = self._from_url() if self.url is not None else self._from_parts()
        for each in found:
            if not (
                each.tls or self.plaintext or self.sasl == "EXTERNAL" or is_loopback(each.host)
            ):
                raise OptionError(
                    "the password would travel in clear to another machine",
                    expected="tls=true or an amqps:// url",
                    got=repr(each),
                    fix="speak TLS, or set plaintext=true if you trust the network",
                )
        return found

    def brokers(self) -> list[tuple[object, ...]]:
        """Which brokers and virtual host, with no secret resolved: a reference stands for itself.

        Raises:
            OptionError: the url cannot be read.
        """
        if self.url is not None and self.url.reference is not None:
            return [(self.url.reference,)]
        bare = evolve(self, password=None)
        found = bare._from_url() if self.url is not None else bare._from_parts()
        return [(each.host, each.port, each.vhost) for each in found]

    def _from_url(self) -> list[Endpoint]:
        assert self.url is not None
        parts, port = _parsed(self.url.reveal())
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
            raise OptionError(
                "the url is not one of AMQP",
                expected="amqp://user:password@host:port/vhost",
                got=f"scheme {parts.scheme!r}",
            )
        tls = parts.scheme == "amqps"
        vhost = unquote(parts.path[1:]) if len(parts.path) > 1 else "/"
        return [
            Endpoint(
                host=parts.hostname,
                port=port or (TLS_PORT if tls else PORT),
                vhost=vhost,
                user=unquote(parts.username or "guest"),
                password=unquote(parts.password or "guest"),
                tls=tls,
            )
        ]

    def _from_parts(self) -> list[Endpoint]:
        password = "guest" if self.password is None else self.password.reveal()
        found = []
        for text in self.hosts:
            host, colon, port = text.rpartition(":")
            if not colon or not port.isdigit():
                host, port = text, str(TLS_PORT if self.tls else PORT)
            found.append(
                Endpoint(host.strip("[]"), int(port), self.vhost, self.user, password, self.tls)
            )
        return found


def _parsed(url: str) -> tuple[SplitResult, int | None]:
    """The url's parts and port; no error says what is in it, for that may be the password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts = port = None
    rest = "" if parts is None else parts.path + parts.query + parts.fragment
    if parts is None or ("@" in rest and "@" not in parts.netloc):
        raise OptionError(
            "the url cannot be read",
            expected="amqp://user:password@host:port/vhost",
            fix="write / ? # @ and : in the user or password as %2F %3F %23 %40 and %3A, or give "
            "hosts, user and password instead of the url",
        )
    if parts.query or parts.fragment:
        raise OptionError(
            "the url has settings behind it, which are not read",
            expected="amqp://user:password@host:port/vhost",
            got="a ? or # in it",
            fix="give them as options, such as heartbeat=5; in a vhost write %3F or %23",
        )
    return parts, port
