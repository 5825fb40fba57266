"""Java's exceptions as Penstock's errors: what may pass by itself, and what will not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.contracts.errors import (
    EphemeralReadError,
    EphemeralWriteError,
    PenstockError,
    ReadError,
    WriteError,
)
from penstock_jms.jvm import WHO

_PERMANENT = {
    "JMSSecurityException": "check user and password, and what the user may do",
    "JMSSecurityRuntimeException": "check user and password, and what the user may do",
    "InvalidDestinationException": "check the name of the queue or topic, or create it",
    "InvalidSelectorException": "check the selector",
    "NoInitialContextException": "check jndi.java.naming.factory.initial and the jars",
    "NameNotFoundException": "check jndi_name against what the provider offers",
    "AuthenticationException": "check the credentials of the JNDI provider",
    "SSLException": "check the broker's certificate and the client's trust store",
    "OutOfMemoryError": 'give Java more memory, jvm_options="-Xmx1g", or take less in a batch',
    "LinkageError": "check that the jars are complete and fit this Java",
    "ClassNotFoundException": "check that the jars are complete",
}
_WRAPPERS = ("UndeclaredThrowableException", "InvocationTargetException")


def names(error: Any) -> set[str]:
    """The simple names of a Java exception's class and all above it."""
    return {kind.__name__.rpartition(".")[2] for kind in type(error).__mro__}


def causes(error: Any) -> Iterator[Any]:
    """A Java exception and what caused it, outermost first."""
    seen = 0
    while error is not None and seen < 20:
        yield error
        error = error.getCause()
        seen += 1


def root(error: Any) -> Any:
    """The exception itself, without what reflection wrapped around it."""
    while names(error) & set(_WRAPPERS) and error.getCause() is not None:
        error = error.getCause()
    return error


def translated(error: Any, doing: str, *, writing: bool) -> PenstockError:
    """The Penstock error for a Java exception met while `doing` something."""
    error = root(error)
    known = [_PERMANENT[name] for each in causes(error) for name in names(each) & set(_PERMANENT)]
    said = "; ".join(dict.fromkeys(str(each) for each in causes(error)))
    if known:
        kind = WriteError if writing else ReadError
        return kind(f"{doing} failed for good", who=WHO, got=said, fix=known[0])
    kind = EphemeralWriteError if writing else EphemeralReadError
    return kind(
        f"{doing} failed", who=WHO, got=said, fix="see that the broker runs and is reachable"
    )


@contextmanager
def speaking(doing: str, *, writing: bool = False) -> Iterator[None]:
    """Raise what Java throws inside as one of Penstock's errors."""
    import jpype

    try:
        yield
    except jpype.JException as error:
        raise translated(error, doing, writing=writing) from None
