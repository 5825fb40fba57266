"""What a connector raises reaches the user with who, with which options, and where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from penstock.contracts.envelope import column
from penstock.contracts.errors import PenstockError, ReadError, RunError, UnknownNameError
from penstock.contracts.options import Configured, shown
from penstock.registry import entry


def speaker(name: str) -> str:
    """How errors name a connector: with the distribution it comes from."""
    try:
        return entry("connectors", name).who
    except UnknownNameError:
        return name


@contextmanager
def told(
    who: str,
    connector: Configured,
    doing: str,
    kind: type[RunError] = ReadError,
    where: str | None = None,
) -> Iterator[None]:
    """Turn what is raised inside into one error with connector, options and place.

    A PenstockError keeps its class; anything else becomes `kind`. Secrets never print: an
    exception's text that contains one shows `***` instead.
    """
    try:
        yield
    except PenstockError as error:
        raise _placed(error.by(who), connector, where) from error
    except GeneratorExit:
        raise
    except Exception as error:
        text = _censored(f"{type(error).__name__}: {error}", connector)
        raise _placed(kind(f"{doing} failed: {text}", who=who), connector, where) from None


def _placed(error: PenstockError, connector: Configured, where: str | None) -> PenstockError:
    options = ", ".join(f"{k}={v}" for k, v in shown(connector).items())
    facts = [f"options {options}" if options else "", where or ""]
    place = "; ".join(fact for fact in facts if fact)
    if place and place not in (error.got or ""):
        error.got = f"{error.got}; {place}" if error.got else place
    error.message = _censored(error.message, connector)
    error.got = _censored(error.got, connector) if error.got else None
    return error


def _censored(text: str, connector: Configured) -> str:
    for secret in secrets_of(connector):
        text = text.replace(secret, "***")
    return text


def secrets_of(connector: Configured) -> list[str]:
    """The literal values a text about this connector must not hold."""
    from penstock.contracts.options import specs
    from penstock.contracts.secret import Secret

    found: list[str] = []
    for spec in specs(type(connector)):
        value = getattr(connector, spec.name)
        for each in value.values() if isinstance(value, dict) else [value]:
            if isinstance(each, Secret):
                try:
                    found.append(each.reveal())
                except PenstockError:
                    continue
    return [text for text in found if text]


def last_stamp(rows: pa.RecordBatch | None) -> str | None:
    """Where a reader stood: the stamp of the last row it gave, in words."""
    if rows is None or rows.num_rows == 0:
        return None
    stamp = column(rows, "stamp")
    if stamp is None:
        return None
    last = stamp[rows.num_rows - 1].as_py()
    return f"after {last['origin']} part {last['part']} position {last['position']}"
