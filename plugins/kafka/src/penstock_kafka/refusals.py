"""Which rows a sink refuses, known before any of them is sent.

A share that was committed and comes again is skipped, but its refused rows must become dead letters
all the same. So nothing that happens at sending may decide: the same rows are refused by the same
rule, and the rule is noted with the batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from penstock.contracts import Rejected
from penstock.contracts.envelope import column
from penstock_kafka.settings import TOPIC
from penstock_kafka.sink import KafkaSink

_OVERHEAD = 36
"""Bytes that librdkafka reckons for a record beside key, value and headers."""
_LARGEST = 1_000_000
"""librdkafka's message.max.bytes unless it is set."""


@frozen
class Rule:
    """What decides, beside the rows themselves: it is noted with a batch and read back.

    Attributes:
        most: Bytes of the largest record.
        times: Whether records keep their event time.
    """

    most: int
    times: bool

    @classmethod
    def of(cls, sink: KafkaSink) -> Rule:
        """As the sink's options say."""
        named = {name.lower(): value for name, value in sink.kafka.items()}
        most = int(named.get("message.max.bytes", _LARGEST))
        return cls(most, sink.timestamps == "event_time")


def sort_out(
    sink: KafkaSink, rule: Rule, rows: pa.RecordBatch
) -> tuple[list[tuple[str, pa.RecordBatch]], list[Rejected]]:
    """The rows to send, by topic, and those refused, with the reasons."""
    good, refused = [], []
    for topic, some in _by_topic(sink, rows):
        if topic is None or not TOPIC.fullmatch(topic):
            wrong = "no topic" if topic is None else f"{topic!r}, which is no name of a topic"
            refused.append(Rejected(some, [f"the record names {wrong}"] * some.num_rows))
            continue
        reasons = dict(sorted(_reasons(sink, rule, some)))
        if reasons:
            bad = np.zeros(some.num_rows, bool)
            bad[list(reasons)] = True
            refused.append(Rejected(some.filter(pa.array(bad)), list(reasons.values())))
            some = some.filter(pa.array(~bad))
        good.append((topic, some))
    return good, refused


def _by_topic(sink: KafkaSink, rows: pa.RecordBatch) -> list[tuple[str | None, pa.RecordBatch]]:
    if rows.num_rows == 0:
        return []
    if sink.topic_field is None:
        return [(sink.topic, rows)]
    named = rows.column(sink.topic_field)
    if sink.topic is not None:
        named = named.fill_null(sink.topic)
    found = []
    for name in named.unique():
        same = pc.equal(named, name) if name.is_valid else pc.is_null(named)
        found.append((name.as_py(), rows.filter(same)))
    return found


def _reasons(sink: KafkaSink, rule: Rule, rows: pa.RecordBatch) -> Iterator[tuple[int, str]]:
    """Rows and why; a row may come twice."""
    sizes = _lengths(rows.column("value")) + _OVERHEAD
    key = column(rows, sink.key_field)
    if key is not None:
        sizes += _lengths(key)
    headers = column(rows, "headers")
    if headers is not None and headers.null_count < len(headers):
        many = headers.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        of = np.repeat(np.arange(len(many)), many)
        pairs = headers.flatten()
        names, values = pairs.field("key"), pairs.field("value")
        nameless = pc.or_kleene(pairs.is_null(), names.is_null()).to_numpy(zero_copy_only=False)
        yield from ((int(row), "a header has no name") for row in of[nameless])
        cut = pc.match_substring(names, "\0").fill_null(False).to_numpy(zero_copy_only=False)
        yield from ((int(row), "the name of a header holds a zero byte") for row in of[cut])
        length, size = _lengths(names), _lengths(values)
        each = length + size + _varint(length) + _varint(size)
        sizes += np.bincount(of, each, len(many)).astype(np.int64)
    for row in np.flatnonzero(sizes > rule.most).tolist():
        yield row, f"the record has {sizes[row]} bytes, more than message.max.bytes={rule.most}"
    moments = column(rows, "event_time") if rule.times else None
    if moments is not None and moments.null_count < len(moments):
        # 0 means now to librdkafka, and Kafka knows no time before it.
        early = pc.less(moments.cast(pa.int64()), 1000).fill_null(False)
        for row in np.flatnonzero(early.to_numpy(zero_copy_only=False)).tolist():
            yield row, "its event_time is not after 1970-01-01T00:00:00Z; timestamps=now drops it"


def _lengths(values: pa.Array) -> np.ndarray:
    found = pc.binary_length(values).fill_null(0)
    return found.to_numpy(zero_copy_only=False).astype(np.int64)


def _varint(numbers: np.ndarray) -> np.ndarray:
    """Bytes of numbers as Kafka writes them: seven bits of twice the number to a byte."""
    return 1 + (2 * numbers[:, None] >= 1 << np.arange(7, 35, 7)).sum(1)
