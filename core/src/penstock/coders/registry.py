"""A Confluent Schema Registry, asked through confluent-kafka's own client.

One client per process and per settings; what it has fetched by id stays, because ids never
change their meaning. An id the registry does not know is asked for again after a while.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

from attrs import field, frozen

from penstock.contracts.errors import (
    CodecError,
    EphemeralError,
    OptionError,
    PenstockError,
    SchemaError,
    did_you_mean,
)
from penstock.contracts.hosts import is_loopback
from penstock.contracts.options import hides
from penstock.contracts.secret import Secret

TIMEOUT = 10.0
FORGET = 30.0
MAX_REFERENCES = 32
Strategy = Literal["topic", "record", "topic-record"]

_KNOWN = {"url", "proxy", "basic.auth.user.info"}
_KNOWN |= {f"ssl.{name}" for name in ("ca.location", "certificate.location", "key.location")}
_KNOWN |= {"ssl.key.password", "plaintext"}
_BEARER = "bearer.auth."
_NUMBERS = {"timeout", "cache.capacity", "cache.latest.ttl.sec", "max.retries"}
_NUMBERS |= {"retries.wait.ms", "retries.max.wait.ms"}
_DEFAULTS = {"timeout": TIMEOUT, "max.retries": 2, "retries.wait.ms": 100}


class RegistryError(CodecError):
    """The registry answered that it does not have, or does not take, a schema."""


class EphemeralRegistryError(RegistryError, EphemeralError):
    """The registry does not answer now."""


@frozen
class Written:
    """A schema of the registry: its kind, its text, and those it refers to, deepest first."""

    kind: Literal["AVRO", "JSON", "PROTOBUF"]
    text: str
    references: tuple[tuple[str, str], ...] = ()


@frozen
class Import:
    """What a schema to be registered refers to by a name, which is its subject too."""

    name: str
    text: str
    imports: tuple[Import, ...] = ()


@frozen(eq=False)
class Registry:
    """A registry by its client's settings: `url`, `basic.auth.user.info`, `ssl.ca.location`, ..."""

    settings: Mapping[str, str | Secret] = field(repr=False)

    def __attrs_post_init__(self) -> None:
        url = self.settings.get("url")
        if url is None:
            raise OptionError(
                "a registry needs its address",
                expected="registry.url",
                fix='give registry.url="https://host:8081"',
            )
        self._check_names()
        telling = any(
            hides(name) and not name.startswith(("url", "ssl.")) for name in self.settings
        )
        trusted = str(self.settings.get("plaintext", "false")).lower() == "true"
        for each in _plain(url).split(","):
            parts = urlsplit(each.strip())
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise OptionError(
                    "registry.url is no registry's address", expected="http:// or https://"
                )
            clear = parts.scheme == "http" and not is_loopback(parts.hostname)
            if clear and not trusted and (telling or parts.username):
                raise OptionError(
                    "the registry's credentials would cross the network in clear text",
                    expected="an https:// address, or one of this machine",
                    got=f"http://{parts.hostname}",
                    fix="speak TLS, or set registry.plaintext=true if you trust the network",
                )

    def _check_names(self) -> None:
        for name, value in self.settings.items():
            if name not in _KNOWN | _NUMBERS and not name.startswith(_BEARER):
                raise OptionError(
                    f"the registry has no setting registry.{name}",
                    fix=did_you_mean(name, _KNOWN | _NUMBERS | {f"{_BEARER}token"}),
                )
            if name in _NUMBERS and not _is_number(_plain(value)):
                raise OptionError(
                    f"registry.{name} is no number", expected="a number", got=repr(_plain(value))
                )

    def by_id(self, number: int, form: str | None = None) -> Written:
        """The schema of an id. Fetched once per process.

        Args:
            number: The id.
            form: How the text is wanted; `serialized` for Protobuf descriptors.

        Raises:
            RegistryError: it is not there, or (ephemeral) the registry does not answer.
        """
        return self._session(form).by_id(number)

    def knows(self, number: int, form: str | None = None) -> bool:
        """Whether the schema of an id is already here."""
        return number in self._session(form).known

    def by_version(
        self, subject: str, version: int | None = None, form: str | None = None
    ) -> tuple[int, Written]:
        """A subject's schema of a version, the latest by default, and its id."""
        return self._session(form).by_version(subject, version)

    def register(self, subject: str, schema: Written, imports: tuple[Import, ...] = ()) -> int:
        """The id of a schema under a subject; registered if it is compatible and not yet there.

        What it imports is registered first.

        Raises:
            RegistryError: the registry says it is incompatible.
        """
        return self._session(None).number(subject, schema, imports, create=True)

    def find(self, subject: str, schema: Written, imports: tuple[Import, ...] = ()) -> int:
        """The id that a schema already has under a subject.

        Raises:
            RegistryError: it has none.
        """
        return self._session(None).number(subject, schema, imports, create=False)

    def _session(self, form: str | None) -> _Session:
        named = self.settings.items()
        plain = tuple(sorted((name, _plain(value)) for name, value in named if name != "plaintext"))
        return _made(plain, form, os.getpid())


class Asking:
    """A registry for the ids of one batch: once it does not answer, the others do not wait for it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._silent: str | None = None

    def by_id(self, number: int, form: str | None = None) -> Written:
        """As the registry's own.

        Raises:
            RegistryError: it is not there, or (ephemeral) the registry does not answer.
        """
        if self._silent is not None and not self._registry.knows(number, form):
            raise EphemeralRegistryError(self._silent)
        try:
            return self._registry.by_id(number, form)
        except EphemeralRegistryError as error:
            self._silent = error.message
            raise


def hidden(settings: Mapping[str, str | Secret]) -> dict[str, str | Secret]:
    """The same settings with every value that must not print as a `Secret`."""
    return {
        name: Secret(value) if isinstance(value, str) and hides(name) else value
        for name, value in settings.items()
    }


def _plain(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else str(value)


def subject_name(strategy: Strategy, topic: str | None, record: str | None) -> str:
    """The subject by a naming strategy.

    Raises:
        OptionError: the strategy needs a name that is not given.
    """
    wanted = {"topic": (topic,), "record": (record,), "topic-record": (topic, record)}[strategy]
    if None in wanted:
        raise OptionError(
            f"the subject strategy {strategy} lacks a name",
            expected="topic" if topic is None else "a schema with a record's name",
            fix="give topic=..., or subject=... itself",
        )
    return f"{topic}-value" if strategy == "topic" else "-".join(str(part) for part in wanted)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@lru_cache(maxsize=16)
def _made(key: tuple[tuple[str, str], ...], form: str | None, pid: int) -> _Session:
    return _Session(dict(key), form)


class _Session:
    """The registry as one process sees it, for one form of texts. Thread-safe.

    A form each: the client's own cache knows schemas by their ids alone.
    """

    def __init__(self, settings: dict[str, str], form: str | None) -> None:
        self.form = form
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError as error:
            raise OptionError(
                f"the registry's client is not installed: {error}",
                fix="pip install 'penstock[registry]'",
            ) from None
        given: dict[str, Any] = {**_DEFAULTS, **settings}
        if "bearer.auth.token" in given:
            given.setdefault("bearer.auth.credentials.source", "STATIC_TOKEN")
            given.setdefault("bearer.auth.logical.cluster", "default")
        for name in _NUMBERS & set(given):
            given[name] = float(given[name])
        try:
            self.client: Any = SchemaRegistryClient(given)
        except (ValueError, TypeError, OSError) as error:
            # The client's words name settings, never their values, except for the address.
            said = "registry.url is wrong" if "url" in str(error).lower() else str(error)
            raise OptionError(f"the registry's settings are refused: {said}") from None
        self.lock = threading.Lock()
        self.known: dict[int, Written] = {}
        self.missing: dict[int, tuple[float, str, str | None]] = {}
        self.ids: dict[tuple[str, Written, tuple[Import, ...], bool], int] = {}

    def by_id(self, number: int) -> Written:
        with self.lock:
            if number in self.known:
                return self.known[number]
            since, said, fix = self.missing.get(number, (-FORGET, "", None))
            if said and time.monotonic() - since < FORGET:
                raise RegistryError(said, fix=fix)
            try:
                schema = _asked(
                    lambda: self.client.get_schema(number, fmt=self.form), f"the schema {number}"
                )
                self.known[number] = self._whole(schema)
            except EphemeralRegistryError:
                raise
            except RegistryError as error:
                if len(self.missing) > 10_000:
                    self.missing.clear()
                self.missing[number] = (time.monotonic(), error.message, error.fix)
                raise
            return self.known[number]

    def by_version(self, subject: str, version: int | None) -> tuple[int, Written]:
        what = f"the subject {subject}"
        if version is None:
            # The client keeps the latest for ever; an analysis wants that of now.
            self.client.clear_latest_caches()
            found = _asked(lambda: self.client.get_latest_version(subject, self.form), what)
        else:
            found = _asked(lambda: self.client.get_version(subject, version, fmt=self.form), what)
        return int(found.schema_id), self._whole(found.schema)

    def number(
        self, subject: str, schema: Written, imports: tuple[Import, ...], *, create: bool
    ) -> int:
        key = (subject, schema, imports, create)
        with self.lock:
            if key not in self.ids:
                given = self._schema(schema.text, schema.kind, imports, create)
                ask = self.client.register_schema if create else self._lookup
                what = f"this schema under the subject {subject}"
                self.ids[key] = int(_asked(lambda: ask(subject, given), what))
            return self.ids[key]

    def _lookup(self, subject: str, given: Any) -> int:
        return int(self.client.lookup_schema(subject, given).schema_id)

    def _schema(self, text: str, kind: str, imports: tuple[Import, ...], create: bool) -> Any:
        """A schema that refers to the registry's versions of what it imports."""
        from confluent_kafka.schema_registry import Schema, SchemaReference

        references = []
        for name, given in [
            (each.name, self._schema(each.text, kind, each.imports, create)) for each in imports
        ]:
            what = f"the import {name}"
            if create:
                _asked(lambda n=name, g=given: self.client.register_schema(n, g), what)
            found = _asked(lambda n=name, g=given: self.client.lookup_schema(n, g), what)
            references.append(SchemaReference(name, name, found.version))
        return Schema(text, kind, references)

    def _whole(self, schema: Any) -> Written:
        found: dict[str, str] = {}
        self._follow(schema, found, 0)
        return Written(schema.schema_type or "AVRO", schema.schema_str, tuple(found.items()))

    def _follow(self, schema: Any, found: dict[str, str], depth: int) -> None:
        for reference in schema.references or ():
            if reference.name in found:
                continue
            if depth > MAX_REFERENCES or len(found) > MAX_REFERENCES:
                raise RegistryError(f"a schema refers to more than {MAX_REFERENCES} others")
            what = f"the subject {reference.subject}"
            version = _asked(
                lambda r=reference: self.client.get_version(r.subject, r.version, fmt=self.form),
                what,
            )
            self._follow(version.schema, found, depth + 1)
            found[reference.name] = version.schema.schema_str


def _asked(ask: Any, what: str) -> Any:
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    try:
        return ask()
    except SchemaRegistryError as error:
        status = error.http_status_code
        if status >= 500 or status in (408, 429):
            raise EphemeralRegistryError(
                f"the registry cannot answer for {what} (HTTP {status})"
            ) from None
        if 300 <= status < 400:
            raise RegistryError(
                f"the registry sent us elsewhere for {what}; redirects are refused",
                fix="give the address it redirects to, if you trust it",
            ) from None
        if status in (401, 403):
            raise RegistryError(f"the registry refused our credentials for {what}") from None
        raise RegistryError(
            f"the registry has no answer for {what} (HTTP {status}, code {error.error_code})"
        ) from None
    except OSError as error:
        raise EphemeralRegistryError(f"the registry does not answer ({error})") from None
    except Exception as error:
        # The client's HTTP library has no error type in common with ours or Python's.
        if type(error).__module__.split(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2"):
            name = type(error).__name__
            raise EphemeralRegistryError(f"the registry does not answer ({name})") from None
        raise


def schema_error(error: RegistryError) -> PenstockError:
    """A registry's refusal as an error of the analysis, or the ephemeral one as it is."""
    if error.ephemeral:
        return error
    return SchemaError(error.message, fix=error.fix)
