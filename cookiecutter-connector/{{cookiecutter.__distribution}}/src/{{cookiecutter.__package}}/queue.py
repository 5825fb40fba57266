"""A queue source over the little broker.

CHANGE the options, `receive`, and how a message becomes an envelope.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from penstock.contracts import (
    ENVELOPE,
    Consumer,
    Context,
    Lease,
    Limit,
    QueueSource,
    Secret,
    option,
)
from penstock.contracts import connector as configured
from penstock.contracts.errors import EphemeralReadError, ReadError

from {{ cookiecutter.__package }}.client import Link, Refused

_MOST = 1000


@configured
class {{ cookiecutter.__class }}Source(QueueSource):
    """Receives from the broker's queue."""

    host: str = option(default="127.0.0.1", doc="Where the broker listens.")
    port: int = option(doc="Its port.")
    password: Secret | None = option(default=None, doc="Its password, if it wants one.")

    def consumer(self, ctx: Context, receiver: int) -> Consumer:
        secret = None if self.password is None else self.password.reveal()
        try:
            link = Link(self.host, self.port, secret)
        except OSError as error:
            raise EphemeralReadError("the broker does not answer", got=str(error)) from error
        try:
            link.ask("depth")
        except Refused as refusal:
            link.close()
            raise ReadError("the broker refuses us", got=str(refusal)) from refusal
        except OSError as error:
            link.close()
            raise EphemeralReadError("the broker does not answer", got=str(error)) from error
        return {{ cookiecutter.__class }}Consumer(link, f"socket:{self.host}:{self.port}", receiver)


class {{ cookiecutter.__class }}Consumer(Consumer):
    """One connection; every lease on it ends with it."""

    def __init__(self, link: Link, origin: str, receiver: int) -> None:
        self._link: Link | None = link
        self._origin = origin
        self._part = str(receiver)
        self._open = 0

    def receive(self, limit: Limit, wait: float) -> Lease | None:
        rows = _MOST if limit.rows is None else min(limit.rows, _MOST)
        if rows == 0:
            self.ask("depth")  # as good as a heartbeat
            return None
        messages = self.ask("receive", limit=rows, room=limit.bytes, wait=wait)["messages"]
        if not messages:
            return None
        self._open += len(messages)
        return {{ cookiecutter.__class }}Lease(self, self._envelopes(messages), messages)

    def depth(self) -> int | None:
        count: int = self.ask("depth")["count"]
        return count

    def unacknowledged(self) -> int:
        return self._open

    def settled(self, count: int) -> None:
        self._open -= count

    def ask(self, op: str, **facts: Any) -> dict[str, Any]:
        if self._link is None:
            raise EphemeralReadError("the connection is closed; its leases are void")
        try:
            return self._link.ask(op, **facts)
        except OSError as error:
            self.close()
            raise EphemeralReadError("the connection is lost", got=str(error)) from error

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None
        self._open = 0

    def _envelopes(self, messages: list[dict[str, Any]]) -> pa.RecordBatch:
        rows = [
            {
                "key": _bytes(message.get("key")),
                "value": _bytes(message.get("value")),
                "headers": [
                    {"key": name, "value": _bytes(value)}
                    for name, value in message.get("headers", [])
                ],
                "event_time": _instant(message.get("time")),
                "id": message.get("id"),
                "stamp": {"origin": self._origin, "part": self._part, "position": message["tag"]},
            }
            for message in messages
        ]
        return pa.RecordBatch.from_pylist(rows, schema=ENVELOPE)


class {{ cookiecutter.__class }}Lease(Lease):
    """Messages of one reply."""

    def __init__(
        self, consumer: {{ cookiecutter.__class }}Consumer, rows: pa.RecordBatch, messages: list[dict[str, Any]]
    ) -> None:
        self.rows = rows
        self.deliveries = pa.array([message["deliveries"] for message in messages], pa.int64())
        self.redelivered = pa.array([message["deliveries"] > 1 for message in messages])
        self._consumer = consumer
        self._tags = [message["tag"] for message in messages]

    def acknowledge(self) -> None:
        done = self._consumer.ask("acknowledge", tag=self._tags[-1])
        self._consumer.settled(done["count"])

    def release(self) -> None:
        done = self._consumer.ask("release", tags=self._tags)
        self._consumer.settled(done["count"])


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else datetime.fromtimestamp(micros / 1_000_000, UTC)
