"""Kafka topics as a replayable source. Imports no client library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa
from attrs import evolve

from penstock.contracts import (
    ENVELOPE,
    Context,
    Part,
    Planner,
    ReplayableSource,
    at_least,
    connector,
    option,
)
from penstock.contracts.errors import OptionError
from penstock_kafka.settings import check_passed, check_servers
from penstock_kafka.where import check_where

SPARK_COLUMNS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", ENVELOPE.field("headers").type),
        pa.field("leaderEpoch", pa.int32()),
    ]
)
"""What Spark's own source gives, and the leader epoch."""


def _check_pattern(value: str) -> str | None:
    try:
        re.compile(value)
    except re.error as error:
        return f"must be a regular expression: {error}"
    return None


@connector
class KafkaSource(ReplayableSource):
    """Reads Kafka topics."""

    servers: str = option(
        doc="Brokers to start from, host:port with commas between.",
        check=check_servers,
        example="broker-1:9092,broker-2:9092",
    )
    topics: list[str] | None = option(default=None, doc="Topics to read.", example="orders,refunds")
    pattern: str | None = option(
        default=None,
        doc="Read every topic whose whole name matches this regular expression, also new ones.",
        check=_check_pattern,
        example="orders-.*",
    )
    partitions: dict[str, Any] | None = option(
        default=None,
        doc="Read only these partitions, by topic.",
        example='{"orders": [0, 1]}',
    )
    start: dict[str, Any] | str = option(
        default="earliest",
        doc="Where a query without a checkpoint begins: earliest, latest, a moment, or a mapping "
        "by topic and partition of these or of offsets. What it leaves out begins at earliest.",
        check=check_where("start"),
        example='{"orders": {"0": 42, "1": "latest"}}',
    )
    end: dict[str, Any] | str = option(
        default="latest",
        doc="Where reading ends, written like start; a stream goes on for ever at latest.",
        check=check_where("end"),
    )
    isolation: Literal["read_committed", "read_uncommitted"] = option(
        default="read_committed",
        doc="Whether records of open and aborted transactions are left out.",
    )
    on_data_loss: Literal["fail", "warn"] = option(
        default="fail",
        doc="What to do when records were deleted before they were read, or a topic was made "
        "anew: stop, or warn with the number of records and go on.",
    )
    min_rows: int | None = option(
        default=None,
        doc="Wait until a batch has this many rows, or max_wait has passed.",
        check=at_least(1),
    )
    min_bytes: int | None = option(
        default=None,
        unit="bytes",
        doc="Wait until a batch has about this many bytes, or max_wait has passed.",
        check=at_least(1),
    )
    max_wait: float = option(
        default=15.0,
        unit="seconds",
        doc="The longest wait for min_rows and min_bytes.",
        check=at_least(0),
    )
    split_rows: int | None = option(
        default=None,
        doc="Split what a batch takes from one partition into parts of at most this many rows, "
        "read at once. Records of one key may then be processed out of order.",
        check=at_least(1),
    )
    group_rows: int = option(
        default=20_000,
        doc="Read small partitions together in one task of about this many rows; "
        "0 gives every partition its own task.",
        check=at_least(0),
    )
    order: Literal["partition", "event_time"] = option(
        default="partition",
        doc="partition: each partition in its own order. event_time: one task merges all "
        "partitions of a batch, of all topics, by event time; each keeps its own order.",
    )
    group: str | None = option(
        default=None,
        doc="Consumer group in which offsets are committed once a batch is durable, for lag "
        "tools. Penstock itself never reads them.",
    )
    refresh: float = option(
        default=5.0,
        unit="seconds",
        doc="How often a stream looks for new topics and partitions.",
        check=at_least(0),
    )
    columns: Literal["envelope", "spark"] = option(
        default="envelope",
        doc="envelope: Penstock's record. spark: the columns of Spark's own Kafka source, "
        "and leaderEpoch.",
    )
    headers: bool = option(
        default=True, doc="Whether headers are read; without them reading is faster."
    )
    id_header: str | None = option(
        default=None, doc="The header that holds a record's id, for de-duplication."
    )
    batch_rows: int = option(
        default=20_000, doc="Rows of one Arrow batch at most.", check=at_least(1)
    )
    timeout: float = option(
        default=60.0,
        unit="seconds",
        doc="How long a silent broker is waited for before a read fails and is retried.",
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
        given = [n for n in ("topics", "pattern", "partitions") if getattr(self, n) is not None]
        if len(given) != 1:
            raise OptionError(
                "which topics to read is not clear",
                expected="exactly one of topics, pattern, partitions",
                got=" and ".join(given) or "none of them",
            )
        if self.id_header is not None and (not self.headers or self.columns != "envelope"):
            raise OptionError(
                "id_header needs the headers",
                got=f"headers={self.headers}, columns={self.columns}",
                fix="drop id_header, or set headers=true and columns=envelope",
            )
        if self.order == "event_time" and self.split_rows is not None:
            raise OptionError(
                "order=event_time and split_rows contradict each other",
                fix="drop one of them: a merge is one task",
            )
        self._check_partitions()
        check_passed(self.kafka, self.servers, allow_plaintext=self.allow_plaintext)

    def _check_partitions(self) -> None:
        for topic, numbers in (self.partitions or {}).items():
            good = isinstance(numbers, list) and all(
                isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers
            )
            if not good or not numbers:
                raise OptionError(
                    f"the option partitions is wrong for the topic {topic}",
                    expected="a list of partition numbers",
                    got=repr(numbers),
                )

    def schema(self) -> pa.Schema:
        return ENVELOPE if self.columns == "envelope" else SPARK_COLUMNS

    def bounded(self) -> bool:
        return self.end != "latest"

    def planner(self, ctx: Context) -> Planner:
        from penstock_kafka.planner import KafkaPlanner

        return KafkaPlanner(self)

    def check(self) -> None:
        """Ask the cluster once, without the patience of a running query."""
        planner = evolve(self, timeout=min(self.timeout, 8.0)).planner(Context(node="check"))
        try:
            planner.initial()
        finally:
            planner.close()

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        from penstock_kafka.fetch import read

        return read(self, part)
