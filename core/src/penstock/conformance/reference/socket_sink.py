"""A sink that sends to the little broker, each record under a name the broker takes only once."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

from penstock.conformance.reference.client import Link, Refused
from penstock.contracts import Batch, Promise, Receipt, Secret, Sink, Writer, option
from penstock.contracts import connector as configured
from penstock.contracts.envelope import ENVELOPE, column
from penstock.contracts.errors import EphemeralWriteError, SchemaError, WriteError

_AT_ONCE = 500


@configured
class SocketSink(Sink):
    """Sends to the broker's queue."""

    host: str = option(default="127.0.0.1", doc="Where the broker listens.")
    port: int = option(doc="Its port.")
    password: Secret | None = option(default=None, doc="Its password, if it wants one.")

    def promise(self) -> Promise:
        return Promise(replay="idempotent", atomic="record")

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        if "value" not in schema.names:
            raise SchemaError(
                "a queue takes bytes",
                expected="a column named value",
                got=", ".join(schema.names),
                fix="encode the rows first",
            )
        kept = [f for f in schema if f.name in ENVELOPE.names or f.name == "_pen"]
        return pa.schema([ENVELOPE.field(f.name) if f.name != "_pen" else f for f in kept])

    def open(self, batch: Batch, partition: int, attempt: int, schema: pa.Schema) -> Writer:
        return SocketWriter(self.link(), f"{batch.key}/{partition}")

    def check(self) -> None:
        link = self.link()
        try:
            link.ask("depth")
        except Refused as refusal:
            raise WriteError("the broker refuses us", got=str(refusal)) from refusal
        finally:
            link.close()

    def link(self) -> Link:
        secret = None if self.password is None else self.password.reveal()
        try:
            return Link(self.host, self.port, secret)
        except OSError as error:
            raise EphemeralWriteError("the broker does not answer", got=str(error)) from error


class SocketWriter(Writer):
    """Sends in portions; the name of a record is its batch, partition and number."""

    def __init__(self, link: Link, share: str) -> None:
        self._link = link
        self._share = share
        self._rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        for first in range(0, rows.num_rows, _AT_ONCE):
            messages = self._messages(rows.slice(first, _AT_ONCE))
            try:
                self._link.ask("send", messages=messages)
            except Refused as refusal:
                raise WriteError("the broker refuses a message", got=str(refusal)) from refusal
            except OSError as error:
                raise EphemeralWriteError("the connection is lost", got=str(error)) from error

    def close(self) -> Receipt:
        self._link.close()
        return Receipt(rows=self._rows)

    def abort(self) -> None:
        self._link.close()

    def _messages(self, rows: pa.RecordBatch) -> list[dict[str, Any]]:
        found = {name: column(rows, name) for name in ("key", "value", "headers", "id")}
        lists = {
            name: [None] * rows.num_rows if array is None else array.to_pylist()
            for name, array in found.items()
        }
        time = column(rows, "event_time")
        micros = [None] * rows.num_rows if time is None else time.cast(pa.int64()).to_pylist()
        messages = []
        for at in range(rows.num_rows):
            headers = lists["headers"][at] or []
            messages.append(
                {
                    "key": _text(lists["key"][at]),
                    "value": _text(lists["value"][at]),
                    "headers": [[h["key"], _text(h["value"])] for h in headers],
                    "time": micros[at],
                    "id": lists["id"][at],
                    "dedupe": f"{self._share}/{self._rows}",
                }
            )
            self._rows += 1
        return messages


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
