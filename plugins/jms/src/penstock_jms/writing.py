"""Rows as JMS messages."""

from __future__ import annotations

import base64
import json
import time
from typing import Any, Literal

from attrs import frozen

from penstock_jms import bodies
from penstock_jms.bodies import BadBody
from penstock_jms.client import Client
from penstock_jms.failures import names
from penstock_jms.headers import BINARY, BODY, DUPLICATE_ID, TYPES, property_name

Kind = Literal["auto", "text", "bytes", "map", "stream"]
Header = dict[str, Any]

_SETTERS = {
    "boolean": ("setBooleanProperty", lambda text: {"true": True, "false": False}[text]),
    "byte": ("setByteProperty", int),
    "short": ("setShortProperty", int),
    "int": ("setIntProperty", int),
    "long": ("setLongProperty", int),
    "float": ("setFloatProperty", float),
    "double": ("setDoubleProperty", float),
}
_NOT_SENT = (BODY, TYPES, DUPLICATE_ID)
_SENDING = ("JMSPriority", "JMSDeliveryMode", "JMSExpiration")


@frozen
class Sending:
    """How one message is sent, where its headers ask for other than the sink's own way."""

    mode: int
    priority: int
    live: int


class Composer:
    """Makes messages of one session.

    Args:
        client: Whose session makes them.
        kind: The kind of message; `auto` follows the header `jms.body`, else the column's type.
        textual: Whether the column `value` is text.
        headers: The names of headers to send; None for all.
    """

    def __init__(self, client: Client, kind: Kind, textual: bool, headers: list[str] | None):
        self._client = client
        self._session = client.session
        self._kind = kind
        self._usual = "text" if textual else "bytes"
        self._wanted = None if headers is None else frozenset(headers)

    def message(self, value: bytes | str | None, headers: list[Header] | None) -> Any:
        """A message with this body and these headers.

        Raises:
            BadBody: the row cannot become a message; the error says why.
        """
        given = {h["key"]: h["value"] for h in headers} if headers else {}
        message = self._filled(self._kind_for(given, value), value)
        if given:
            self._add(message, given)
        return message

    def sending(self, headers: list[Header] | None, usual: Sending) -> Sending:
        """How to send it, by its headers."""
        given = {h["key"]: h["value"] for h in headers if h["key"] in _SENDING} if headers else {}
        if not given:
            return usual
        try:
            numbers = {name: int(value) for name, value in given.items()}
        except (TypeError, ValueError):
            raise BadBody(f"a number is expected in {', '.join(sorted(given))}") from None
        live = usual.live
        if numbers.get("JMSExpiration"):
            live = max(1, numbers["JMSExpiration"] - int(time.time() * 1000))
        mode = numbers.get("JMSDeliveryMode", usual.mode)
        priority = numbers.get("JMSPriority", usual.priority)
        if mode not in (1, 2) or not 0 <= priority <= 9:
            raise BadBody("JMSDeliveryMode is 1 or 2, JMSPriority 0 to 9")
        return Sending(mode, priority, live)

    def _kind_for(self, given: dict[str, Any], value: bytes | str | None) -> str:
        if self._kind != "auto":
            return self._kind
        marked = given.get(BODY)
        kind = marked.decode("utf-8", "replace") if marked is not None else self._usual
        if kind == "object":
            raise BadBody("an object message is never made: its body was not read")
        if kind == "none" and value is not None:
            return self._usual
        return kind

    def _filled(self, kind: str, value: bytes | str | None) -> Any:
        session = self._session
        if kind == "none":
            return session.createMessage()
        if kind == "text":
            return session.createTextMessage(_text(value))
        raw = value.encode() if isinstance(value, str) else value
        if kind == "bytes":
            message = session.createBytesMessage()
            # Artemis gives four zero bytes for a body that was never written, not for an empty one.
            message.writeBytes(raw or b"")
            return message
        if kind == "map":
            message = session.createMapMessage()
            bodies.fill_map(message, raw or b"{}")
            return message
        if kind == "stream":
            message = session.createStreamMessage()
            bodies.fill_stream(message, raw or b"[]")
            return message
        raise BadBody(f"there is no kind of message called {kind}")

    def _add(self, message: Any, given: dict[str, Any]) -> None:
        types = _types(given.get(TYPES))
        for name, value in given.items():
            if name in _NOT_SENT or (self._wanted is not None and name not in self._wanted):
                continue
            if name.startswith("JMS"):
                self._add_own(message, name, value)
                continue
            called = property_name(name)
            if called is None:
                raise BadBody(f"the header {name!r} cannot be a JMS property")
            if _is_text(value):
                self._set(message, called, _text(value), types.get(name, "text"))
            else:
                packed = base64.b64encode(value).decode("ascii")
                message.setStringProperty(called + BINARY, packed)

    def _set(self, message: Any, name: str, text: str | None, kind: str) -> None:
        if kind == "text" or text is None:
            message.setStringProperty(name, text)
            return
        try:
            setter, convert = _SETTERS[kind]
            getattr(message, setter)(name, convert(text))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise BadBody(f"the header {name} is no {kind}") from None

    def _add_own(self, message: Any, name: str, value: bytes | None) -> None:
        text = _text(value)
        if name == "JMSCorrelationID":
            message.setJMSCorrelationID(text)
        elif name == "JMSType":
            message.setJMSType(text)
        elif name == "JMSXGroupSeq" and text:
            self._set(message, name, text, "int")
        elif name == "JMSReplyTo" and text:
            kind, _, called = text.partition(":")
            if kind not in ("queue", "topic") or not called:
                raise BadBody("JMSReplyTo is queue:NAME or topic:NAME")
            message.setJMSReplyTo(self._reply_to(called, queue=kind == "queue"))
        # All others are the broker's to set: the delivery count, the vendor's own.

    def _reply_to(self, name: str, *, queue: bool) -> Any:
        try:
            return self._client.named(name, queue=queue)
        except self._client.exceptions as error:
            if "InvalidDestinationException" not in names(error):
                raise
            raise BadBody(f"JMSReplyTo names {name}, which the broker does not have") from None


def _types(found: bytes | None) -> dict[str, str]:
    if found is None:
        return {}
    try:
        types = json.loads(found)
    except ValueError:
        raise BadBody(f"the header {TYPES} is no JSON") from None
    if not isinstance(types, dict):
        raise BadBody(f"the header {TYPES} is no JSON object")
    return types


def _is_text(value: bytes | None) -> bool:
    # A NUL is valid UTF-8, and the end of a text for many a broker.
    if value is None:
        return True
    try:
        return "\0" not in value.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _text(value: bytes | str | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadBody(f"text must be UTF-8: {error}") from None
