"""A seeded source of made-up records: for demos, tests and benchmarks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
from attrs import frozen

from penstock.contracts import (
    ENVELOPE,
    TIMESTAMP,
    Context,
    Limit,
    Planner,
    Position,
    ReplayableSource,
    at_least,
    option,
)
from penstock.contracts import connector as configured
from penstock.contracts.compute import pc
from penstock.contracts.envelope import HEADERS, stamps
from penstock.contracts.errors import OptionError, PositionError

_EPOCH = 1_767_225_600_000_000  # 2026-01-01 in microseconds: event times must not drift
_ROWS = 20_000
_PRIME = 2_654_435_761


@frozen
class Range:
    """The records `start` to `end` (exclusive)."""

    start: int
    end: int


@configured
class GeneratorSource(ReplayableSource):
    """Records made from a seed: the same seed and number give the same record, always."""

    rows: int | None = option(
        default=None, doc="How many records; without it the source never ends.", check=at_least(0)
    )
    rate: float | None = option(
        default=None, doc="Records per second; without it as fast as they are asked for."
    )
    seed: int = option(default=0, doc="Records of one seed are always the same.")
    format: Literal["json", "text", "bytes"] = option(
        default="json",
        doc="What `value` holds: an order as JSON, a line of text, or `size` bytes.",
    )
    size: int = option(
        default=100, unit="bytes", doc="Length of a value of the format bytes.", check=at_least(8)
    )
    parallelism: int = option(default=2, doc="How many tasks make one batch.", check=at_least(1))

    def settle(self) -> None:
        """An endless source without a rate would make one batch without an end."""
        if self.rate is not None and self.rate <= 0:
            raise OptionError("the option rate must be above 0", got=repr(self.rate))

    def bounded(self) -> bool:
        """With `rows` it ends."""
        return self.rows is not None

    def schema(self) -> pa.Schema:
        """Envelopes."""
        return ENVELOPE

    def planner(self, ctx: Context) -> GeneratorPlanner:
        """Counts; nothing to open."""
        return GeneratorPlanner(self)

    def check(self) -> None:
        """Nothing can be wrong with it."""

    def read(self, part: Range) -> Iterator[pa.RecordBatch]:
        """Make the records of a range."""
        for start in range(part.start, part.end, _ROWS):
            yield self._make(start, min(start + _ROWS, part.end))

    def _make(self, start: int, end: int) -> pa.RecordBatch:
        numbers = pa.array(np.arange(start, end))
        ids = pc.binary_join_element_wise(str(self.seed), numbers.cast(pa.string()), "-")
        times = pc.add(pc.multiply(numbers, 1000), _EPOCH).cast(pa.timestamp("us")).cast(TIMESTAMP)
        values = self._values(numbers)
        count = len(numbers)
        key = pc.binary_join_element_wise("customer", _mod(numbers, self.seed, 97), "-")
        return pa.RecordBatch.from_arrays(
            [
                key.cast(pa.binary()),
                values.cast(pa.binary()),
                pa.nulls(count, HEADERS),
                times,
                ids,
                stamps(f"generator-{self.seed}", "0", numbers),
            ],
            schema=ENVELOPE,
        )

    def _values(self, numbers: pa.Array) -> pa.Array:
        text = numbers.cast(pa.string())
        if self.format == "text":
            return pc.binary_join_element_wise("record", text, " ")
        if self.format == "bytes":
            return pc.utf8_lpad(text, width=self.size, padding="x")
        total = pc.divide(_mod(numbers, self.seed, 50_000, numeric=True).cast(pa.float64()), 100.0)
        customer = _mod(numbers, self.seed, 97)
        at = _written(numbers)
        return pc.binary_join_element_wise(
            pc.binary_join_element_wise('{"id":', text, ""),
            pc.binary_join_element_wise('"customer":"customer-', customer, '"', ""),
            pc.binary_join_element_wise('"total":', total.cast(pa.string()), ""),
            pc.binary_join_element_wise('"at":"', at, '"}', ""),
            ",",
        )


def _written(numbers: pa.Array) -> pa.Array:
    """Event times as text. A thousand records share a second, so few of those are formatted."""
    if not len(numbers):
        return pa.array([], pa.string())
    seconds = pc.divide(numbers, 1000)
    first, last = seconds[0].as_py(), seconds[-1].as_py()
    distinct = pa.array(np.arange(first, last + 1) + _EPOCH // 1_000_000).cast(pa.timestamp("s"))
    texts = pc.strftime(distinct, format="%Y-%m-%dT%H:%M:%S")
    thousandths = pc.subtract(numbers, pc.multiply(seconds, 1000))
    return pc.binary_join_element_wise(
        texts.take(pc.subtract(seconds, first)), _thousandths().take(thousandths), "."
    )


@cache
def _thousandths() -> pa.Array:
    return pa.array([f"{n:03d}000Z" for n in range(1000)])


def _mod(numbers: pa.Array, seed: int, by: int, *, numeric: bool = False) -> pa.Array:
    """A scattered number below `by` for each record, as text unless `numeric`."""
    mixed = pc.bit_wise_and(pc.multiply(pc.add(numbers, seed * 7919 + 1), _PRIME), 0x7FFFFFFF)
    shifted = pc.shift_right(mixed, 7)
    left = pc.subtract(shifted, pc.multiply(pc.divide(shifted, by), by))
    return left if numeric else left.cast(pa.string())


class GeneratorPlanner(Planner):
    """A position is a count of records."""

    def __init__(self, source: GeneratorSource) -> None:
        self._source = source
        self._began = time.monotonic()
        self._from: int | None = None

    def initial(self) -> Position:
        """Nothing made yet."""
        return {"n": 0}

    def latest(self, after: Position, limit: Limit, until: Position | None = None) -> Position:
        """As far as rows, rate and limit allow."""
        start, rows = _count(after), self._source.rows
        if rows is not None and start > rows:
            raise PositionError(
                "the position lies outside of the source", expected=f"<= {rows}", got=str(start)
            )
        end = self._ready(start)
        if limit.rows is not None:
            end = min(end, start + max(limit.rows, 1))
        if limit.bytes is not None:
            end = min(end, start + max(limit.bytes // self._bytes_each(), 1))
        if until is not None:
            end = min(end, _count(until))
        return {"n": max(end, start)}

    def _ready(self, start: int) -> int:
        rows, rate = self._source.rows, self._source.rate
        if rate is None:
            return start + 1_000_000 if rows is None else rows
        if self._from is None:
            self._from, self._began = start, time.monotonic()
        made = self._from + int((time.monotonic() - self._began) * rate)
        return made if rows is None else min(made, rows)

    def _bytes_each(self) -> int:
        return self._source.size if self._source.format == "bytes" else 100

    def plan(self, start: Position, end: Position) -> list[Range]:
        """Even ranges; the same for ever, since they follow from the two counts."""
        low, high = _count(start), _count(end)
        if high < low or (self._source.rows is not None and high > self._source.rows):
            raise PositionError(
                "the end lies outside of the source", expected=f">= {low}", got=str(high)
            )
        tasks = min(self._source.parallelism, high - low)
        cuts = [low + (high - low) * i // tasks for i in range(tasks + 1)] if tasks else []
        return [Range(a, b) for a, b in pairwise(cuts)]

    def final(self) -> Position:
        """All rows, whatever the rate."""
        if self._source.rows is None:
            raise OptionError(
                "a batch read of the generator needs an end", fix="add rows=1000, or stream it"
            )
        return {"n": self._source.rows}

    def lag(self, at: Position) -> dict[str, int]:
        """What `rows` leaves to be made."""
        return {} if self._source.rows is None else {"0": self._source.rows - _count(at)}


def _count(position: Position) -> int:
    n = position.get("n") if isinstance(position, dict) else None
    if not isinstance(n, int) or n < 0:
        raise PositionError(
            "this is no position of a generator", expected='{"n": count}', got=repr(position)
        )
    return n
