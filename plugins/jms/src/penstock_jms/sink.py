"""JMS queues and topics as a sink: one transaction per task."""

from __future__ import annotations

import time
from typing import Any, Literal

import pyarrow as pa

from penstock.contracts import (
    Batch,
    Promise,
    Receipt,
    Rejected,
    Sink,
    Writer,
    at_least,
    connector,
    option,
)
from penstock.contracts.envelope import column
from penstock.contracts.errors import SchemaError, WriteError
from penstock_jms.bodies import BadBody
from penstock_jms.client import Client
from penstock_jms.failures import causes, names, speaking
from penstock_jms.headers import DUPLICATE_ID
from penstock_jms.jvm import WHO
from penstock_jms.options import Connecting
from penstock_jms.writing import Composer, Kind, Sending

_DETECTING = ("org.apache.activemq.artemis.", "org.apache.qpid.jms.")
_UNUSED = ("event_time", "id", "stamp")
_UNANSWERED = 2.0
"""Seconds for the broker to end a commit whose answer was lost."""


@connector
class JmsSink(Connecting, Sink):
    """A JMS queue or topic."""

    message: Kind = option(
        default="auto",
        doc="Kind of message. `auto`: what the header `jms.body` says, else text for a text "
        "column and bytes for a binary one. `map` and `stream` take a JSON object or array.",
    )
    headers: list[str] | None = option(
        default=None, doc="Send only these headers as properties. Default: all."
    )
    key_as: Literal["group", "none"] = option(
        default="group",
        doc="`group` sends the key as JMSXGroupID, so that the broker keeps its order.",
    )
    event_time_property: str | None = option(
        default=None,
        doc="Send the column event_time as this property, in milliseconds since 1970.",
    )
    persistent: bool = option(default=True, doc="Whether messages survive the broker's restart.")
    priority: int = option(
        default=4,
        doc="Priority, from 0 to 9.",
        check=lambda value: None if 0 <= value <= 9 else "must be between 0 and 9",
    )
    time_to_live: float = option(
        default=0.0, unit="seconds", doc="How long a message lives; 0 for ever.", check=at_least(0)
    )
    transaction_rows: int | None = option(
        default=None,
        doc="Commit after so many rows, to spare the broker's memory. Default: a task's share "
        "is one transaction, all visible or nothing.",
        check=at_least(1),
    )
    duplicate_detection: Literal["none", "artemis"] = option(
        default="none",
        doc="`artemis`: give every transaction an id that Artemis remembers, so that a batch "
        "written twice is there once.",
    )

    def promise(self) -> Promise:
        """Idempotent with duplicate detection; a task's share is atomic unless it is cut."""
        return Promise(
            replay="append" if self.duplicate_detection == "none" else "idempotent",
            atomic="task" if self.transaction_rows is None else "record",
        )

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """Rows with `value` as text or bytes, and `key` and `headers` if they are there."""
        wanted = ["key", "value", "headers", "_pen"]
        if self.event_time_property is not None:
            wanted.append("event_time")
        taken = [f for f in schema if f.name in wanted]
        value = next((f for f in taken if f.name == "value"), None)
        further = [f.name for f in schema if f not in taken and f.name not in _UNUSED]
        if value is None or further or not _is_body(value.type):
            got = ", ".join(f"{f.name}: {f.type}" for f in schema if f.name != "_pen")
            raise SchemaError(
                "a message has one body",
                who=WHO,
                expected="a column value of text or binary, and key and headers if there are any",
                got=got,
                fix="encode the row into value: a coder in a pipeline, "
                "to_json(struct('*')) AS value in plain Spark",
            )
        return pa.schema(taken)

    def open(self, batch: Batch, partition: int, attempt: int, schema: pa.Schema) -> JmsWriter:
        """A connection with one transacted session."""
        return JmsWriter(self, f"{batch.key}/{partition}", schema)

    def check(self) -> None:
        """Connect, and see that the destination takes a producer."""
        client = self.connect()
        try:
            with speaking("making a producer", writing=True):
                client.session.createProducer(client.destination)
        finally:
            client.close()

    def connect(self) -> Client:
        """A client whose library knows duplicate ids, if they are asked for."""
        client = Client(self, transacted=True, writing=True)
        found = str(client.factory.getClass().getName())
        if self.duplicate_detection == "artemis" and not found.startswith(_DETECTING):
            client.close()
            raise WriteError(
                "this client knows no duplicate detection",
                who=WHO,
                expected="the client of Artemis, or Qpid JMS to an Artemis broker",
                got=found,
                fix="set duplicate_detection=none; a replayed batch may then appear twice",
            )
        return client


class JmsWriter(Writer):
    """Sends a task's share; `close` commits it.

    Artemis refuses a transaction that holds a duplicate id it has seen. So one message of each
    transaction carries an id made of batch, partition and the transaction's number, the last one:
    two attempts at a share can then both pass only within the moment between that message and
    the end of the commit. So an attempt whose commit was not answered waits before it fails, and
    with it the next: the broker may still be at it. A refused commit means that the same rows are
    there already.
    """

    def __init__(self, sink: JmsSink, key: str, schema: pa.Schema) -> None:
        self._sink = sink
        self._key = key
        self._client: Client | None = sink.connect()
        self._rows = self._transactions = self._pending = 0
        self._held: tuple[Any, Sending] | None = None
        self._rejected: list[Rejected] = []
        textual = pa.types.is_string(schema.field("value").type)
        self._composer = Composer(self._client, sink.message, textual, sink.headers)
        live = int(sink.time_to_live * 1000)
        self._usual = Sending(2 if sink.persistent else 1, sink.priority, live)
        try:
            with speaking("making a producer", writing=True):
                self._producer = self._client.session.createProducer(self._client.destination)
                self._producer.setDeliveryMode(self._usual.mode)
                self._producer.setPriority(self._usual.priority)
                self._producer.setTimeToLive(self._usual.live)
        except BaseException:
            self.abort()
            raise

    def write(self, rows: pa.RecordBatch) -> None:
        """Send these; the broker's own window bounds how much is on the way."""
        values = rows.column("value").to_pylist()
        headers = _listed(column(rows, "headers"), len(values))
        keys = _listed(column(rows, "key"), len(values))
        times = self._times(rows)
        refused: dict[int, str] = {}
        with speaking("sending", writing=True):
            for at, value in enumerate(values):
                try:
                    message = self._composed(value, headers[at], keys[at])
                    if times is not None and times[at] is not None:
                        message.setLongProperty(self._sink.event_time_property, times[at])
                    how = self._composer.sending(headers[at], self._usual)
                except BadBody as error:
                    refused[at] = str(error)
                    continue
                self._hold(message, how)
        if refused:
            bad = rows.take(pa.array(list(refused)))
            self._rejected.append(Rejected(bad, list(refused.values())))

    def close(self) -> Receipt:
        """Commit."""
        if self._held is not None:
            self._commit()
        self.abort()
        return Receipt(rows=self._rows, rejected=tuple(self._rejected))

    def abort(self) -> None:
        """Drop the connection; the broker forgets what was not committed."""
        client, self._client, self._held = self._client, None, None
        if client is not None:
            client.close()

    def _composed(self, value: Any, headers: Any, key: Any) -> Any:
        message = self._composer.message(value, headers)
        if key is not None and self._sink.key_as == "group":
            text = key if isinstance(key, str) else self._group(key)
            message.setStringProperty("JMSXGroupID", text)
        return message

    def _times(self, rows: pa.RecordBatch) -> list[int | None] | None:
        found = column(rows, "event_time")
        if self._sink.event_time_property is None or found is None:
            return None
        return found.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64()).to_pylist()

    def _group(self, key: bytes) -> str:
        try:
            return key.decode("utf-8")
        except UnicodeDecodeError:
            raise BadBody("the key is no UTF-8 text: set key_as=none") from None

    def _hold(self, message: Any, how: Sending) -> None:
        """Send the message before this one: the last of a transaction gets its id first."""
        if self._held is not None:
            if self._pending + 1 == self._sink.transaction_rows:
                self._commit()
            else:
                self._send(*self._held)
        self._held = (message, how)

    def _send(self, message: Any, how: Sending) -> None:
        if how is self._usual:
            self._producer.send(message)
        else:
            self._producer.send(message, how.mode, how.priority, how.live)
        self._pending += 1

    def _commit(self) -> None:
        import jpype

        message, how = self._held
        detecting = self._sink.duplicate_detection == "artemis"
        with speaking("committing", writing=True):
            if detecting:
                message.setStringProperty(DUPLICATE_ID, f"{self._key}/{self._transactions}")
            self._send(message, how)
            try:
                self._client.session.commit()
            except jpype.JException as error:
                if not detecting:
                    raise
                if not _is_duplicate(error):
                    time.sleep(_UNANSWERED)
                    raise
        self._rows += self._pending
        self._transactions += 1
        self._pending, self._held = 0, None


def _is_duplicate(error: Any) -> bool:
    return any("ActiveMQDuplicateIdException" in names(each) for each in causes(error))


def _is_body(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _listed(found: pa.Array | None, count: int) -> list[Any]:
    return [None] * count if found is None else found.to_pylist()
