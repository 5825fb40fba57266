"""Messages of one partition as Arrow columns."""

from __future__ import annotations

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from penstock.contracts import ENVELOPE
from penstock.contracts.envelope import TIMESTAMP, stamps
from penstock_kafka.source import SPARK_COLUMNS, KafkaSource

_HEADERS = ENVELOPE.field("headers").type


def rows_of(
    source: KafkaSource, topic: str, partition: int, messages: list[Message]
) -> pa.RecordBatch:
    """Messages of one partition in the source's schema."""
    count = len(messages)
    key = pa.array([m.key() for m in messages], pa.binary())
    value = pa.array([m.value() for m in messages], pa.binary())
    offset = pa.array([m.offset() for m in messages], pa.int64())
    kinds, millis = zip(*[m.timestamp() for m in messages], strict=True)
    moment = _moments(kinds, millis)
    headers = _headers(messages) if source.headers else pa.nulls(count, _HEADERS)
    if source.columns == "spark":
        epochs = [m.leader_epoch() for m in messages]
        columns = [
            key,
            value,
            pa.repeat(topic, count),
            pa.repeat(pa.scalar(partition, pa.int32()), count),
            offset,
            moment,
            pa.array([kind - 1 for kind in kinds], pa.int32()),
            headers,
            pa.array(epochs, pa.int32()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SPARK_COLUMNS)
    ids = _ids(messages, source.id_header) if source.id_header else pa.nulls(count, pa.string())
    columns = [key, value, headers, moment, ids, stamps(topic, str(partition), offset)]
    return pa.RecordBatch.from_arrays(columns, schema=ENVELOPE)


def _moments(kinds: tuple[int, ...], millis: tuple[int, ...]) -> pa.Array:
    if TIMESTAMP_NOT_AVAILABLE in kinds:
        known = [
            m if k != TIMESTAMP_NOT_AVAILABLE else None for k, m in zip(kinds, millis, strict=True)
        ]
    else:
        known = list(millis)
    return pa.array(known, pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP)


def _headers(messages: list[Message]) -> pa.Array:
    found = [m.headers() for m in messages]
    if not any(found):
        return pa.nulls(len(found), _HEADERS)
    listed = [None if each is None else [{"key": k, "value": v} for k, v in each] for each in found]
    return pa.array(listed, _HEADERS)


def _ids(messages: list[Message], name: str) -> pa.Array:
    ids = []
    for message in messages:
        value = next((v for k, v in message.headers() or () if k == name), None)
        ids.append(None if value is None else value.decode("utf-8", "replace"))
    return pa.array(ids, pa.string())
