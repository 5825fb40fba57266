"""The records the suite sends through a connector: known ids, seeded, awkward on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from attrs import frozen

from penstock.conformance.oracle import Oracle
from penstock.contracts import ENVELOPE
from penstock.contracts.envelope import column

# Just after clocks went back in New York: a naive local time would be an hour off.
_FIRST = datetime(2025, 11, 2, 6, 30, tzinfo=UTC)
KEYS = 7


@frozen
class Record:
    """One record, as a producer would send it."""

    id: str
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    event_time: datetime


def made(oracle: Oracle, size: int = 0) -> list[Record]:
    """A record for each id; the value begins with the id and is at least `size` bytes long."""
    out = []
    for number, id in enumerate(oracle.ids):
        value = f"{id} naïve 日本 {number % 10}".encode()
        out.append(
            Record(
                id=id,
                key=f"key-{number % KEYS}".encode(),
                value=value.ljust(size, b"."),
                headers=(("n", str(number).encode()), ("ü", b"\x00\xff")),
                event_time=_FIRST + timedelta(milliseconds=number),
            )
        )
    return out


def envelopes(records: Iterable[Record]) -> pa.RecordBatch:
    """Records as rows a sink is given; their stamps are null, as nobody has stamped them."""
    rows = [
        {
            "key": each.key,
            "value": each.value,
            "headers": [{"key": name, "value": value} for name, value in each.headers],
            "event_time": each.event_time,
            "id": each.id,
            "stamp": None,
        }
        for each in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ENVELOPE)


def values_of(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
    """The `value` of every row."""
    out: list[bytes] = []
    for rows in batches:
        found = column(rows, "value")
        assert found is not None, f"rows without a value: {rows.schema.names}"
        out += found.to_pylist()
    return out


def first_words(values: Sequence[bytes | None]) -> list[str]:
    """The ids that values begin with."""
    return ["" if v is None else v.split(b" ")[0].decode(errors="replace") for v in values]
