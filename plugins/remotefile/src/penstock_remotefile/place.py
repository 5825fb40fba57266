"""Where the files are: one URL, and what it takes to get in."""

from __future__ import annotations

import getpass
import re
from urllib.parse import unquote, urlsplit

from penstock.contracts import Configured, Secret, at_least, connector, option
from penstock.contracts.errors import OptionError
from penstock_localfile.engine.names import divide, literal
from penstock_localfile.engine.storage import Storage

_QUOTED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_LETS_IN = re.compile(r"auth|cookie|key|token|secret|passw|session|credential", re.IGNORECASE)


@connector
class RemotePlace(Configured):
    """The options that say where, and how to get in."""

    url: str = option(
        default="",
        doc="`sftp://user@host:port/absolute/path` with a glob at its end, one `http(s)://` "
        "file, or a URL that fsspec knows (`s3://bucket/in/*.csv`).",
        example="sftp://me@files.example.org/in/*.csv",
    )
    password: Secret | None = option(default=None, doc="sftp: the user's password.")
    private_key: str | None = option(
        default=None,
        doc="sftp: path of a private key (Ed25519, ECDSA or RSA); a certificate "
        "beside it (`-cert.pub`) is used, too.",
    )
    passphrase: Secret | None = option(default=None, doc="sftp: of the private key.")
    agent: bool = option(default=False, doc="sftp: use the keys of a running SSH agent.")
    known_hosts: str = option(
        default="~/.ssh/known_hosts",
        doc="sftp: the file of known host keys; an unknown or changed key is refused.",
    )
    fingerprint: str | None = option(
        default=None,
        doc="sftp: the host key's fingerprint, instead of known_hosts.",
        example="SHA256:uNiVztksCsDhcc0u9e8BrrcLfR7Du6Rx1TjFbrDF0Ic",
    )
    connections: int = option(
        default=2, check=at_least(1), doc="sftp: at most so many connections per process."
    )
    timeout: float = option(
        default=30.0,
        unit="seconds",
        check=at_least(0.1),
        doc="sftp, http: a server that says nothing for so long is taken for gone.",
    )
    retries: int = option(
        default=5,
        check=at_least(0),
        doc="sftp, http: try a broken transfer again so often, from its offset.",
    )
    headers: dict[str, str | Secret] = option(
        prefix="header.", doc="http: further headers, for instance header.Authorization."
    )
    plain_http: bool = option(
        default=False,
        doc="http: headers that let one in may go to another host in the clear.",
    )
    fs: dict[str, str | Secret] = option(
        prefix="fs.",
        doc="fsspec: arguments of the filesystem, for instance fs.endpoint_url; true, false and "
        "JSON objects and lists are taken as such.",
    )

    def settle(self) -> None:
        """What lets one in would show in plans: in a URL, a header, an argument."""
        lets_in = [
            n for n, v in self.headers.items() if isinstance(v, Secret) or _LETS_IN.search(n)
        ]
        for name in ("headers", "fs"):
            given: dict[str, str | Secret] = getattr(self, name)
            hidden = {k: v if isinstance(v, Secret) else Secret(v) for k, v in given.items()}
            object.__setattr__(self, name, hidden)
        for url in self.addresses():
            _refuse_password(url)
            if lets_in and not self.plain_http and url.lower().startswith("http:") and _far(url):
                raise OptionError(
                    "a header that lets one in would go over the net in the clear",
                    got=f"header.{lets_in[0]} to {url}",
                    fix="use https, or set plain_http=true if that is what you want",
                )
        parts = urlsplit(self.url)
        told = self.scheme != "ftp" or "password" not in self.fs or "tls" in self.fs
        if _far(self.url) and not told:
            raise OptionError(
                "the password would go over the net in the clear",
                got=self.url,
                fix="set fs.tls=true, or fs.tls=false if that is what you want",
            )
        if self.url and not parts.scheme:
            raise OptionError(
                "the URL has no scheme", expected="sftp://, https://, s3://, ...", got=self.url
            )
        if self.fingerprint is not None and not self.fingerprint.startswith("SHA256:"):
            raise OptionError(
                "the fingerprint is of another kind",
                expected="SHA256:..., as ssh-keygen -lf prints it",
                got=self.fingerprint,
            )

    def addresses(self) -> list[str]:
        """Every URL among the options."""
        return [self.url]

    @property
    def scheme(self) -> str:
        """In lower case."""
        return urlsplit(self.url).scheme.lower()

    def located(self) -> tuple[str, str]:
        """The URL without a glob, and the glob below it."""
        parts = urlsplit(self.url)
        head = f"{parts.scheme}://{parts.netloc}"
        root, pattern = divide(self.url[len(head) :])
        return head + ("" if root == "." else root), pattern

    def storage(self) -> tuple[Storage, str]:
        """The system that holds the files, and the glob below its root."""
        base, pattern = self.located()
        if self.scheme == "sftp":
            return self._sftp(base), _unquoted(pattern)
        from penstock_remotefile.fs import FsspecStorage

        return FsspecStorage(base, tuple(sorted(self.fs.items()))), pattern

    def _sftp(self, base: str) -> Storage:
        from penstock_remotefile.login import Login
        from penstock_remotefile.sftp import SftpStorage

        parts = urlsplit(base)
        # Not what urlsplit takes for the path: a `#` would end it, and name another folder.
        path = base[len(f"{parts.scheme}://{parts.netloc}") :]
        if not parts.hostname:
            raise OptionError("the URL names no host", got=self.url)
        login = Login(
            host=parts.hostname,
            port=parts.port or 22,
            user=unquote(parts.username) if parts.username else getpass.getuser(),
            password=self.password,
            private_key=self.private_key,
            passphrase=self.passphrase,
            agent=self.agent,
            known_hosts=self.known_hosts,
            fingerprint=self.fingerprint,
            timeout=self.timeout,
            connections=self.connections,
        )
        return SftpStorage(login, meant(path) or "/", self.retries)


def meant(path: str) -> str:
    """A path without the quoting of URLs; bytes that are no text stay what they are."""
    return unquote(path, errors="surrogateescape")


def _unquoted(pattern: str) -> str:
    """A glob without it; a quoted sign of a glob is a plain character."""
    return _QUOTED.sub(lambda found: literal(meant(found[0])), pattern)


def _far(url: str) -> bool:
    return urlsplit(url).hostname not in ("localhost", "127.0.0.1", "::1")


def _refuse_password(url: str) -> None:
    parts = urlsplit(url)
    if parts.password is not None:
        raise OptionError(
            "a password in the URL would be seen in plans and logs",
            fix="take it out of the URL and give password=${env:NAME}",
        )
    if parts.scheme.lower() in ("http", "https") and parts.username is not None:
        raise OptionError(
            "a user in the URL is not sent by HTTP, and would be seen in plans and logs",
            fix="take it out of the URL and give header.Authorization=${env:NAME}",
        )
