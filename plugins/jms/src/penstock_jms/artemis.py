"""What Artemis's own client is asked for beneath JMS.

When Artemis closes a session as dead while it works on an acknowledgement of that session, it loses
sight of the messages that it has not come to yet: they count as being delivered, and nobody gets
them until the broker starts again. That happens when an acknowledgement waited in the socket of a
broker that was frozen, and the client seems dead by the time it goes on. The client sends one on
many occasions: while it receives, when a connection is closed, even when it gives one up. So a gate
lets acknowledgements pass only while the broker is known to answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_PACKAGE = "org.apache.activemq.artemis."
_ACKNOWLEDGEMENTS = (41, 81)  # PacketImpl.SESS_ACKNOWLEDGE, SESS_INDIVIDUAL_ACKNOWLEDGE


class Artemis:
    """One connection of Artemis's client that reads, of which no other may share the factory.

    Args:
        java: Gives a Java class by name.
        factory: The connection factory.
        fetch: How many bytes the client fetches ahead; None: as it is set.
    """

    def __init__(self, java: Callable[[str], Any], factory: Any, fetch: int | None) -> None:
        self._session: Any = None
        self._answered = 0.0
        self._address: Any = None
        self._open = java("java.util.concurrent.atomic.AtomicBoolean")(False)
        factory.getServerLocator().addOutgoingInterceptor(_gate(java, self._open))
        if fetch is not None:
            factory.setConsumerWindowSize(fetch)

    @staticmethod
    def made(factory: Any) -> bool:
        """Whether a connection factory is one of Artemis's own client."""
        return str(factory.getClass().getName()).startswith(_PACKAGE)

    def attach(self, session: Any, destination: Any) -> None:
        """Work beneath this JMS session."""
        self._session = session.getCoreSession()
        self._address = destination.getSimpleAddress()

    @contextmanager
    def acknowledging(self, fresh: float = 0) -> Iterator[None]:
        """Let acknowledgements pass, once the broker has done all that it was told.

        Args:
            fresh: Seconds that its last answer is good for.

        Raises:
            JException: it does not answer.
        """
        if time.monotonic() - self._answered >= fresh:
            self._session.addressQuery(self._address)
            self._answered = time.monotonic()
        self._open.set(True)
        try:
            yield
        finally:
            self._open.set(False)

    def commit(self) -> None:
        """Commit, and wait for the answer, which an acknowledgement by hand does not."""
        self._session.commit()

    def depth(self) -> int:
        """How many messages are in the queue of the destination, those on their way included."""
        return int(self._session.queueQuery(self._address).getMessageCount())


def _gate(java: Callable[[str], Any], is_open: Any) -> Any:
    """An interceptor of Artemis that stops acknowledgements unless `is_open`.

    Java's threads call it, at the end of the process too, so nothing of it is in Python.
    """
    import jpype

    handles, types = java("java.lang.invoke.MethodHandles"), java("java.lang.invoke.MethodType")
    lookup = handles.publicLookup()
    truth, byte, thing = jpype.JBoolean.class_, jpype.JByte.class_, java("java.lang.Object").class_
    known = java("java.util.HashSet")()
    for number in _ACKNOWLEDGEMENTS:
        known.add(java("java.lang.Byte").valueOf(jpype.JByte(number)))
    packet = java(f"{_PACKAGE}core.protocol.core.Packet").class_
    kind = lookup.findVirtual(packet, "getType", types.methodType(byte))
    contains = lookup.findVirtual(known.getClass(), "contains", types.methodType(truth, thing))
    is_one = contains.bindTo(known).asType(types.methodType(truth, byte))
    asked = lookup.findVirtual(is_open.getClass(), "get", types.methodType(truth)).bindTo(is_open)
    passes = handles.guardWithTest(
        handles.filterReturnValue(kind, is_one),
        handles.dropArguments(asked, 0, packet),
        handles.dropArguments(handles.constant(truth, True), 0, packet),
    )
    connection = java(f"{_PACKAGE}spi.core.protocol.RemotingConnection").class_
    interceptor = java(f"{_PACKAGE}api.core.Interceptor").class_
    return java("java.lang.invoke.MethodHandleProxies").asInterfaceInstance(
        interceptor, handles.dropArguments(passes, 1, connection)
    )
