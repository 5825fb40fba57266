"""The AMQP sink: options only; the client is loaded when a writer is opened."""

from __future__ import annotations

import pyarrow as pa

from penstock.contracts import Batch, Promise, Sink, Writer, at_least, connector, option
from penstock.contracts.errors import OptionError, SchemaError
from penstock_amqp.address import Address


@connector
class AmqpSink(Address, Sink):
    """Publishes to an exchange, with publisher confirms over a window."""

    exchange: str = option(
        default="", doc="The exchange; empty publishes straight to the queue the key names."
    )
    routing_key: str | None = option(
        default=None,
        doc="A fixed routing key. Unless given, `routing_key_field` or the record's key is it.",
    )
    routing_key_field: str | None = option(
        default=None, doc="A text column whose value is the routing key."
    )
    mandatory: bool = option(
        default=True,
        doc="A message that reaches no queue comes back and becomes a dead letter; else the "
        "broker drops it silently.",
    )
    persistent: bool = option(default=True, doc="Messages survive a restart of the broker.")
    window: int = option(
        default=2000,
        doc="How many messages may wait for the broker's confirmation at once.",
        check=at_least(1),
    )
    content_type: str | None = option(
        default=None, doc="The content type of every message.", example="application/json"
    )
    priority: int | None = option(default=None, doc="The priority of every message.")
    expiration: float | None = option(
        default=None, unit="seconds", doc="How long a message may wait in a queue."
    )
    reply_to: str | None = option(default=None, doc="Where answers are expected.")
    correlate: bool = option(
        default=False,
        doc="A message's id is its correlation id too, unless the record has one: answers then "
        "say what they answer.",
    )
    message_type: str | None = option(default=None, doc="The `type` property of every message.")
    app_id: str | None = option(default=None, doc="The `app_id` property of every message.")
    retry_for: float = option(
        default=120.0,
        unit="seconds",
        doc="How long a lost broker is looked for; what it had not confirmed is sent again.",
        check=at_least(0),
    )
    confirm_timeout: float = option(
        default=60.0,
        unit="seconds",
        doc="A broker that confirms nothing for so long counts as lost.",
        check=at_least(1),
    )

    def settle(self) -> None:
        super().settle()
        if self.routing_key is not None and self.routing_key_field is not None:
            raise OptionError(
                "routing_key and routing_key_field both say where messages go",
                fix="give one of them",
            )
        if self.priority is not None and not 0 <= self.priority <= 255:
            raise OptionError(
                "the priority is out of range", expected="0 to 255", got=str(self.priority)
            )

    def promise(self) -> Promise:
        """A replayed batch is sent again, with the same message ids."""
        return Promise(replay="append", atomic="record")

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """Anything with a binary or text `value`."""
        at = schema.get_field_index("value")
        kind = None if at < 0 else schema.field(at).type
        if kind is None or not _bytes_like(kind):
            raise SchemaError(
                "a message needs a body",
                expected="a column `value` of bytes or text",
                got=", ".join(f"{f.name} {f.type}" for f in schema) or "no columns",
                fix="encode the rows first, for instance as JSON",
            )
        wanted = self.routing_key_field
        if wanted is not None:
            found = schema.get_field_index(wanted)
            if found < 0 or not pa.types.is_string(schema.field(found).type):
                raise SchemaError(
                    f"routing_key_field names {wanted}, which is no text column",
                    expected=f"a column {wanted} of text",
                    got=", ".join(schema.names),
                )
        return schema.set(at, pa.field("value", pa.binary()))

    def open(self, batch: Batch, partition: int, attempt: int, schema: pa.Schema) -> Writer:
        from penstock_amqp.writer import AmqpWriter

        return AmqpWriter(self, batch, partition)

    def check(self) -> None:
        """Log in, and look the exchange up."""
        from penstock_amqp.link import Link

        link = Link(self, "penstock check", writing=True)
        try:
            if self.exchange:
                assert link.channel is not None
                link.call(
                    link.channel.exchange_declare,
                    f"looking up {self.exchange}",
                    exchange=self.exchange,
                    passive=True,
                )
        finally:
            link.close()


def _bytes_like(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    )
