"""Kafka topics as a sink. Imports no client library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa

from penstock.contracts import (
    Batch,
    Promise,
    Receipt,
    Sink,
    Writer,
    at_least,
    connector,
    option,
)
from penstock.contracts.envelope import HEADERS, STAMP, TIMESTAMP
from penstock.contracts.errors import OptionError, SchemaError
from penstock_kafka.settings import check_passed, check_servers, check_topic


@connector
class KafkaSink(Sink):
    """Writes Kafka topics."""

    servers: str = option(
        doc="Brokers to start from, host:port with commas between.",
        check=check_servers,
        example="broker-1:9092,broker-2:9092",
    )
    topic: str | None = option(
        default=None,
        doc="The topic to write; with topic_field, where that column is null.",
        check=check_topic,
    )
    topic_field: str | None = option(default=None, doc="The column that names each record's topic.")
    partition_field: str | None = option(
        default=None,
        doc="The column that holds each record's partition; null leaves it to the partitioner.",
    )
    key_field: str = option(default="key", doc="The column that holds the key; it may be missing.")
    delivery: Literal["exactly-once", "at-least-once"] = option(
        default="exactly-once",
        doc="exactly-once: each task's share is one transaction that also holds the batch "
        "number, so that a replayed batch changes nothing. at-least-once: an idempotent "
        "producer; a replayed batch doubles.",
    )
    partitioner: Literal[
        "murmur2_random", "consistent_random", "fnv1a_random", "random", "keep"
    ] = option(
        default="murmur2_random",
        doc="How keys choose partitions; murmur2_random is what Java producers do. keep: the "
        "partition the record was read from, for a mirror.",
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = option(
        default="lz4", doc="How record batches are compressed."
    )
    timestamps: Literal["event_time", "now"] = option(
        default="event_time",
        doc="Whether a record keeps its event_time (where it has one) or gets the time of writing.",
    )
    transaction_timeout: float = option(
        default=60.0,
        unit="seconds",
        doc="How long a task's transaction may stay open before the broker aborts it; the task "
        "is then tried again. At most the broker's transaction.max.timeout.ms.",
        check=at_least(1),
    )
    timeout: float = option(
        default=60.0,
        unit="seconds",
        doc="How long a silent broker is waited for before a task fails and is retried.",
        check=at_least(0.1),
    )
    client_id: str = option(default="penstock", doc="Name of the client in the broker's logs.")
    allow_plaintext: bool = option(
        default=False, doc="Whether credentials may cross a network without TLS."
    )
    kafka: dict[str, Any] = option(
        prefix="kafka.",
        doc="Settings of librdkafka, such as kafka.security.protocol; those that would break a "
        "promise are refused.",
    )

    def settle(self) -> None:
        if self.topic is None and self.topic_field is None:
            raise OptionError(
                "where to write is missing", expected="topic, or topic_field, or both"
            )
        if self.partitioner == "keep" and self.partition_field is not None:
            raise OptionError("partitioner=keep and partition_field contradict each other")
        if self.delivery == "exactly-once" and self.topic is None:
            raise OptionError(
                "exactly-once needs a topic to keep batch numbers under",
                expected="topic besides topic_field",
                fix="set topic to one that exists, or delivery=at-least-once",
            )
        check_passed(self.kafka, self.servers, allow_plaintext=self.allow_plaintext)

    def promise(self) -> Promise:
        if self.delivery == "exactly-once":
            return Promise(replay="idempotent", atomic="task")
        return Promise(replay="append", atomic="record")

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        wanted = {
            "value": pa.binary(),
            self.key_field: pa.binary(),
            "headers": HEADERS,
            "event_time": TIMESTAMP,
            "stamp": STAMP,
        }
        if self.topic_field is not None:
            wanted[self.topic_field] = pa.string()
        if self.partition_field is not None:
            wanted[self.partition_field] = pa.int32()
        for name in ("value", self.topic_field, self.partition_field):
            if name is not None and name not in schema.names:
                raise SchemaError(
                    f"the column {name} is missing",
                    expected=f"{name}: {wanted[name]}",
                    got=", ".join(f"{f.name} {f.type}" for f in schema),
                    fix="encode the rows to bytes first" if name == "value" else None,
                )
        if self.partitioner == "keep" and not {"stamp", "_pen"} & set(schema.names):
            raise SchemaError(
                "the rows do not say which partition they came from",
                expected="a column stamp or _pen",
                got=", ".join(schema.names),
                fix="drop partitioner=keep",
            )
        taken = []
        for f in schema:
            if f.name in wanted:
                _castable(f, wanted[f.name])
                taken.append(pa.field(f.name, wanted[f.name]))
            elif f.name == "_pen":
                taken.append(f)
        return pa.schema(taken)

    def open(self, batch: Batch, partition: int, attempt: int, schema: pa.Schema) -> Writer:
        from penstock_kafka.writer import open_writer

        return open_writer(self, batch, partition, schema)

    def finish(self, batch: Batch, receipts: Sequence[Receipt]) -> None:
        """Each task's share is already visible."""

    def check(self) -> None:
        from penstock_kafka.writer import check

        check(self)


def _castable(found: pa.Field, wanted: pa.DataType) -> None:
    same = found.type.equals(wanted)
    bytes_like = pa.types.is_string(found.type) or pa.types.is_large_string(found.type)
    bytes_like = bytes_like or pa.types.is_large_binary(found.type)
    if same or (pa.types.is_binary(wanted) and bytes_like):
        return
    if pa.types.is_int32(wanted) and pa.types.is_integer(found.type):
        return
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(found.type):
        return
    if pa.types.is_list(wanted) and pa.types.is_list(found.type):
        return
    raise SchemaError(
        f"the column {found.name} has the wrong type",
        expected=str(wanted),
        got=str(found.type),
        fix="cast it, or encode the rows to bytes first",
    )
