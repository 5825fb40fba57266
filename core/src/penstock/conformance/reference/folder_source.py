"""A replayable source over a folder of segments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from attrs import frozen

from penstock.conformance.reference.segments import Segment, listed
from penstock.contracts import ENVELOPE, Context, Limit, Planner, Position, ReplayableSource
from penstock.contracts import connector as configured
from penstock.contracts.envelope import stamps
from penstock.contracts.errors import (
    DataLossError,
    EphemeralReadError,
    PositionError,
)
from penstock.contracts.options import at_least, option

_BYTES = 4 * 2**20


@frozen
class Piece:
    """The records `start` to `end` of one segment file."""

    split: str
    path: str
    base: int
    start: int
    end: int


@configured
class FolderSource(ReplayableSource):
    """Reads the segments of a folder, each subfolder a split."""

    path: str = option(doc="Folder that holds one subfolder per split.", example="/data/orders")
    rows: int = option(default=4096, doc="Rows of one Arrow batch, at most.", check=at_least(1))

    def schema(self) -> pa.Schema:
        return ENVELOPE

    def planner(self, ctx: Context) -> Planner:
        return FolderPlanner(self)

    def read(self, part: Piece) -> Iterator[pa.RecordBatch]:
        origin = f"folder:{Path(self.path).resolve()}"
        try:
            opened = pa.ipc.open_file(pa.memory_map(part.path))
        except FileNotFoundError as error:
            raise DataLossError(
                "a segment was removed after it was planned",
                got=part.path,
                fix="restore it, or start from a new checkpoint",
            ) from error
        at = part.base
        for index in range(opened.num_record_batches):
            rows = opened.get_batch(index)
            low, high = max(part.start - at, 0), min(part.end - at, rows.num_rows)
            step = min(self.rows, max(_BYTES * rows.num_rows // max(rows.nbytes, 1), 1))
            for first in range(low, high, step):
                chunk = rows.slice(first, min(step, high - first))
                numbers = pa.array(range(at + first, at + first + chunk.num_rows), pa.int64())
                columns = [*chunk.columns, stamps(origin, part.split, numbers)]
                yield pa.RecordBatch.from_arrays(columns, schema=ENVELOPE)
            at += rows.num_rows

    def check(self) -> None:
        if not Path(self.path).is_dir():
            raise EphemeralReadError("the folder is not there", got=self.path, fix="is it mounted?")


class FolderPlanner(Planner):
    """A position is, for each split, the number of the next record."""

    def __init__(self, source: FolderSource) -> None:
        self._root = Path(source.path)

    def initial(self) -> Position:
        return {}

    def latest(self, after: Position, limit: Limit, until: Position | None = None) -> Position:
        there = self._listed()
        start = _checked(after, there)
        ends = {split: each[-1].end if each else 0 for split, each in there.items()}
        if until is not None:
            ends = {split: min(end, until.get(split, 0)) for split, end in ends.items()}
        behind = sorted(split for split, end in ends.items() if end > start.get(split, 0))
        position, rows, size = dict(start), limit.rows, limit.bytes
        for left, split in zip(range(len(behind), 0, -1), behind, strict=True):
            begin = start.get(split, 0)
            share = None if rows is None else -(-rows // left)
            room = None if size is None else size // left
            end, used = _within(there[split], begin, ends[split], share, room)
            if end == begin and left == 1 and position == start:
                end = begin + 1  # a limit below the smallest step takes that step
            if end > begin:
                position[split] = end
            rows = None if rows is None else max(rows - (end - begin), 0)
            size = None if size is None else max(size - used, 0)
        return position

    def plan(self, start: Position, end: Position) -> list[Piece]:
        there = self._listed()
        low, high = _checked(start, there), _checked(end, there)
        if any(high.get(split, 0) < number for split, number in low.items()):
            raise PositionError("the end lies before the start", got=f"{start} to {end}")
        pieces = []
        for split in sorted(high):
            begin, stop = low.get(split, 0), high[split]
            first = there[split][0].base if there[split] else 0
            if begin < first and begin < stop:
                raise DataLossError(
                    f"records of split {split} are gone",
                    expected=f"record {begin}",
                    got=f"the first one left is {first}",
                    fix="start from a new checkpoint to accept the loss",
                )
            for segment in there[split]:
                if segment.end > begin and segment.base < stop:
                    pieces.append(
                        Piece(
                            split,
                            str(segment.path),
                            segment.base,
                            max(begin, segment.base),
                            min(stop, segment.end),
                        )
                    )
        return pieces

    def lag(self, at: Position) -> dict[str, int]:
        there = self._listed()
        return {s: (each[-1].end if each else 0) - at.get(s, 0) for s, each in there.items()}

    def _listed(self) -> dict[str, list[Segment]]:
        if not self._root.is_dir():
            raise EphemeralReadError(
                "the folder is not there", got=str(self._root), fix="is it mounted?"
            )
        return listed(self._root)


def _within(
    segments: list[Segment], begin: int, end: int, rows: int | None, size: int | None
) -> tuple[int, int]:
    """How far a split may go within rows and bytes, and the bytes that takes."""
    stop = end if rows is None else min(end, begin + rows)
    at, used = begin, 0
    for segment in segments:
        if segment.end <= at or at >= stop:
            continue
        each = max(segment.path.stat().st_size // segment.count, 1)
        take = min(segment.end, stop) - at
        if size is not None:
            take = min(take, (size - used) // each)
        at, used = at + take, used + take * each
        if at < min(segment.end, stop):
            break
    return at, used


def _checked(position: Position, there: dict[str, list[Segment]]) -> dict[str, int]:
    fine = isinstance(position, dict) and all(
        isinstance(split, str) and isinstance(number, int) and number >= 0
        for split, number in position.items()
    )
    if not fine:
        raise PositionError(
            "this is no position of a folder", expected='{"split": number}', got=repr(position)
        )
    for split, number in position.items():
        end = there[split][-1].end if there.get(split) else 0
        if split not in there or number > end:
            raise PositionError(
                f"split {split} has no record {number}",
                expected=f"at most {end}" if split in there else "one of " + ", ".join(there),
                got=repr(position),
                fix="was the folder replaced? Start from a new checkpoint",
            )
    return position
