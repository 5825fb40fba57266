"""Getting into an SFTP server: the host's key first, credentials only then."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import io
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from attrs import frozen

from penstock.contracts import Secret
from penstock.contracts.errors import EphemeralReadError, ReadError

if TYPE_CHECKING:
    import paramiko

_KEEPALIVE = 15
_WINDOW = 16 << 20
_PACKET = 1 << 17


@frozen
class Login:
    """A server and how to get in. A picklable value."""

    host: str
    port: int
    user: str
    password: Secret | None
    private_key: str | None
    passphrase: Secret | None
    agent: bool
    known_hosts: str
    fingerprint: str | None
    timeout: float
    connections: int

    @property
    def address(self) -> str:
        """As known_hosts writes it."""
        return self.host if self.port == 22 else f"[{self.host}]:{self.port}"

    def connect(self) -> paramiko.SFTPClient:
        """A new connection.

        Raises:
            ReadError: the host's key is unknown or another one, or the credentials are refused.
            EphemeralReadError: the server does not answer.
        """
        import paramiko

        try:
            plain = socket.create_connection((self.host, self.port), self.timeout)
        except OSError as error:
            raise EphemeralReadError(
                f"the server does not answer: {error}", got=self.address
            ) from error
        # A request waits for no other's acknowledgement: many small ones are under way at once.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = paramiko.Transport(
            plain, default_window_size=_WINDOW, default_max_packet_size=_PACKET
        )
        try:
            _prefer_fast(transport)
            self._prefer_known(transport)
            transport.banner_timeout = transport.auth_timeout = self.timeout
            transport.start_client(timeout=self.timeout)
            self._verify(transport.get_remote_server_key())
            self._authenticate(transport)
            transport.set_keepalive(_KEEPALIVE)
            client = paramiko.SFTPClient.from_transport(transport, window_size=_WINDOW)
            assert client is not None
            client.get_channel().settimeout(self.timeout)
            return client
        except (EOFError, OSError, paramiko.SSHException) as error:
            transport.close()
            raise EphemeralReadError(
                f"the connection failed: {error or type(error).__name__}", got=self.address
            ) from error
        except BaseException:
            transport.close()
            raise

    def _prefer_known(self, transport: paramiko.Transport) -> None:
        """Ask the server for a key of the kinds that are known, not for one that is not."""
        if self.fingerprint is not None:
            return
        known = self._known()
        if not known:
            return
        security = transport.get_security_options()
        kinds = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
        names = dict.fromkeys(key.get_name() for key in known)
        first = [k for name in names for k in kinds.get(name, (name,))]
        have = list(security.key_types)
        security.key_types = [k for k in first if k in have] + [k for k in have if k not in first]

    def _known(self) -> list[paramiko.PKey]:
        """All keys of the host; a server that changes its key has two of one kind for a while."""
        import paramiko

        path = os.path.expanduser(self.known_hosts)
        keys = paramiko.HostKeys()
        if os.path.exists(path):
            keys.load(path)
        found = keys.lookup(self.address)
        return [] if found is None else [entry.key for entry in found._entries]

    def _verify(self, key: paramiko.PKey) -> None:
        shown = fingerprint(key)
        if self.fingerprint is not None:
            if shown == self.fingerprint.rstrip("="):
                return
            raise _refused("the host's key is not the pinned one", self.fingerprint, shown)
        known = self._known()
        if key in known:
            return
        if known:
            expected = ", ".join(f"{k.get_name()} {fingerprint(k)}" for k in known)
            raise _refused("the host's key has changed", expected, f"{key.get_name()} {shown}")
        raise ReadError(
            "the host's key is unknown, and nothing was sent",
            expected=f"a line for {self.address} in {self.known_hosts}",
            got=f"{key.get_name()} {shown}",
            fix="compare it with the server's administrator, then add it to known_hosts or give "
            f"fingerprint={shown}",
        )

    def _authenticate(self, transport: paramiko.Transport) -> None:
        import paramiko

        tried = []
        for name, attempt in self._ways(transport):
            try:
                further = attempt()
                if transport.is_authenticated():
                    return
                tried.append(f"{name} (taken, but {further} is asked for as well)")
            except paramiko.AuthenticationException as error:
                tried.append(f"{name} ({error})")
        raise ReadError(
            f"the server does not let {self.user} in",
            expected="a password, private_key or agent that it takes",
            got=", ".join(tried) or "no credentials",
            fix="see the options password, private_key, passphrase and agent",
        )

    def _ways(self, transport: paramiko.Transport) -> Iterator[tuple[str, Callable[[], object]]]:
        import paramiko

        if self.private_key is not None:
            key = self._load(self.private_key)
            yield "private_key", lambda: transport.auth_publickey(self.user, key)
        if self.agent:
            for held in paramiko.Agent().get_keys():
                yield "agent", lambda held=held: transport.auth_publickey(self.user, held)
        if self.password is not None:
            secret = self.password
            yield "password", lambda: transport.auth_password(self.user, secret.reveal())

    def _load(self, path: str) -> paramiko.PKey:
        from cryptography.exceptions import UnsupportedAlgorithm
        from paramiko import SSHException

        place = os.path.expanduser(path)
        phrase = self.passphrase.reveal().encode() if self.passphrase is not None else None
        try:
            with open(place, "rb") as file:
                text = _as_openssh(file.read(), phrase)
            key = _of_kind(text)
            if os.path.exists(place + "-cert.pub"):
                key.load_certificate(place + "-cert.pub")
            return key
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm, SSHException) as error:
            raise ReadError(
                "the private key cannot be read",
                expected="a key file (Ed25519, ECDSA or RSA), and its passphrase if it has one",
                got=f"{path} ({type(error).__name__})",
            ) from None


def _as_openssh(data: bytes, phrase: bytes | None) -> str:
    """A key in any of its forms (OpenSSH, PKCS#1, PKCS#8, SEC1) as the one that paramiko reads."""
    from cryptography.hazmat.primitives import serialization as form

    ssh = b"BEGIN OPENSSH PRIVATE KEY" in data
    load: Callable[..., Any] = form.load_ssh_private_key if ssh else form.load_pem_private_key
    try:
        key = load(data, phrase)
    except TypeError:
        if phrase is None:
            raise
        key = load(data, None)  # a passphrase that the key does not have
    plain = form.NoEncryption()
    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, plain).decode()


def _of_kind(text: str) -> paramiko.PKey:
    import paramiko

    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey):
        with contextlib.suppress(ValueError, TypeError, paramiko.SSHException):
            return kind.from_private_key(io.StringIO(text))
    return paramiko.RSAKey.from_private_key(io.StringIO(text))


def _prefer_fast(transport: paramiko.Transport) -> None:
    """AES-GCM first: one pass in the processor instead of a cipher and a separate digest."""
    security = transport.get_security_options()
    have = list(security.ciphers)
    security.ciphers = sorted(have, key=lambda name: "gcm" not in name)


def fingerprint(key: paramiko.PKey) -> str:
    """As ssh-keygen -lf prints it."""
    digest = hashlib.sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _refused(what: str, expected: str, got: str) -> ReadError:
    return ReadError(
        f"{what}, and nothing was sent",
        expected=expected,
        got=got,
        fix="somebody may be in between; ask the server's administrator before you change anything",
    )


def is_lost(error: BaseException) -> bool:
    """Whether an error is the connection's, not the server's answer: it may pass by itself."""
    import paramiko

    lasting = (FileNotFoundError, PermissionError)
    gone = (EOFError, TimeoutError, ConnectionError, paramiko.SSHException, EphemeralReadError)
    if isinstance(error, OSError) and not isinstance(error, (*lasting, *gone)):
        return error.errno in (errno.EPIPE, errno.ECONNRESET) or str(error) == "Socket is closed"
    return isinstance(error, gone)


class Pool:
    """The open connections of this process to one server."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._idle: list[paramiko.SFTPClient] = []
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(login.connections)

    @contextlib.contextmanager
    def client(self) -> Iterator[paramiko.SFTPClient]:
        """A connection; one that fails in use is closed, not kept.

        Raises:
            EphemeralReadError: all are in use for longer than `timeout`.
        """
        login = self._login
        if not self._room.acquire(timeout=login.timeout):
            raise EphemeralReadError(
                "every connection of this process is in use",
                expected=f"one of {login.connections} to {login.address} to be free within "
                f"{login.timeout:g} s",
                fix="raise connections",
            )
        try:
            client = self._take() or self._login.connect()
            try:
                yield client
            except BaseException:
                client.get_channel().get_transport().close()
                raise
            with self._lock:
                self._idle.append(client)
        finally:
            self._room.release()

    def _take(self) -> paramiko.SFTPClient | None:
        with self._lock:
            while self._idle:
                client = self._idle.pop()
                if client.get_channel().get_transport().is_active():
                    return client
        return None

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            for client in self._idle:
                client.get_channel().get_transport().close()
            self._idle.clear()


_POOLS: dict[tuple[int, Login], Pool] = {}
_POOLS_LOCK = threading.Lock()


def pool(login: Login) -> Pool:
    """The pool of this process; a forked child does not share its parent's connections."""
    with _POOLS_LOCK:
        return _POOLS.setdefault((os.getpid(), login), Pool(login))


def close_all() -> None:
    """Close the idle connections of this process."""
    with _POOLS_LOCK:
        for each in _POOLS.values():
            each.close()
        _POOLS.clear()
