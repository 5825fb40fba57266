"""A queue source over a desk."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from penstock_desk.client import Desk

from penstock.contracts import ENVELOPE, Consumer, Context, Lease, Limit, QueueSource, option
from penstock.contracts import connector as configured
from penstock.contracts.errors import EphemeralReadError, OptionError

_MOST = 1000
_PAUSE = 0.02


@configured
class DeskSource(QueueSource):
    """Takes messages from a desk."""

    path: str = option(doc="The desk's file.")

    def consumer(self, ctx: Context, receiver: int) -> Consumer:
        self.check()
        with _told():
            return DeskConsumer(Desk(self.path), self.path, receiver)

    def check(self) -> None:
        if not Path(self.path).parent.is_dir():
            raise OptionError("there is no such folder", got=self.path, fix="create it")


class DeskConsumer(Consumer):
    """One opened desk; what it took goes back when it closes."""

    def __init__(self, desk: Desk, origin: str, receiver: int) -> None:
        self._desk: Desk | None = desk
        self._where = {"origin": origin, "part": str(receiver)}

    @property
    def desk(self) -> Desk:
        if self._desk is None:
            raise EphemeralReadError("the desk is closed; its leases are void")
        return self._desk

    def receive(self, limit: Limit, wait: float) -> Lease | None:
        most = _MOST if limit.rows is None else min(limit.rows, _MOST)
        until = time.monotonic() + wait
        while most:
            with _told():
                taken = self.desk.take(most)
            if taken:
                return DeskLease(self, [self._envelope(*row[:6]) for row in taken], taken)
            if time.monotonic() >= until:
                break
            time.sleep(_PAUSE)
        return None

    def depth(self) -> int | None:
        with _told():
            return self.desk.waiting()

    def close(self) -> None:
        if self._desk is not None:
            self._desk.close()
        self._desk = None

    def _envelope(self, n: int, *columns: Any) -> dict[str, Any]:
        id, key, value, headers, sent = columns
        return {
            "key": key,
            "value": value,
            "headers": [{"key": k, "value": bytes.fromhex(v)} for k, v in json.loads(headers)],
            "event_time": datetime.fromtimestamp(sent / 1_000_000, UTC),
            "id": id,
            "stamp": {**self._where, "position": n},
        }


class DeskLease(Lease):
    """What was taken at once."""

    def __init__(
        self, consumer: DeskConsumer, rows: list[dict[str, Any]], taken: list[Any]
    ) -> None:
        self.rows = pa.RecordBatch.from_pylist(rows, schema=ENVELOPE)
        self.deliveries = pa.array([row[7] for row in taken], pa.int64())
        self.redelivered = pa.array([row[7] > 1 for row in taken], pa.bool_())
        self._consumer = consumer
        self._range = (taken[0][0], taken[-1][0])

    def acknowledge(self) -> None:
        with _told():
            self._consumer.desk.done(*self._range)

    def release(self) -> None:
        with _told():
            self._consumer.desk.back(*self._range)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise EphemeralReadError("the desk does not answer", got=str(error)) from error
