"""Positions of the source as they stand in Spark's checkpoint, and parts between two of them.

    {"topics": {"orders": {"id": "eSwDavK9RreLnjXy3iqj8g", "at": {"0": 17}, "new": {"0": 5}}}}

`at` is the next offset to read. `new` holds where partitions begin that this position is the
first to know, so that the batch before it can be planned again without asking anyone; or where a
log ended that was found to be shorter than the position before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import field, frozen

from penstock.contracts import Position
from penstock.contracts.errors import PositionError
from penstock_kafka.who import WHO

Place = tuple[str, int]
"""A topic and a partition."""


@frozen(order=True)
class Range:
    """Offsets of one partition, `end` not included."""

    topic: str
    partition: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


@frozen
class KafkaPart:
    """What one task reads, range by range."""

    ranges: tuple[Range, ...]

    def __len__(self) -> int:
        return sum(map(len, self.ranges))


@frozen
class Offsets:
    """A position, taken apart."""

    at: dict[Place, int] = field(factory=dict)
    new: dict[Place, int] = field(factory=dict)
    ids: dict[str, str | None] = field(factory=dict)

    def position(self) -> Position:
        """The JSON form; the same offsets always give the same one."""
        topics: dict[str, Any] = {}
        for topic, partition in sorted(self.at):
            entry = topics.setdefault(topic, {"id": self.ids.get(topic), "at": {}})
            entry["at"][str(partition)] = self.at[topic, partition]
            if (topic, partition) in self.new:
                begun = entry.setdefault("new", {})
                begun[str(partition)] = self.new[topic, partition]
        return {"topics": topics}


def parse(position: Position) -> Offsets:
    """Take a position apart.

    Raises:
        PositionError: it is not one of this source.
    """
    try:
        topics = position["topics"]
        at: dict[Place, int] = {}
        new: dict[Place, int] = {}
        ids = {}
        for topic, entry in topics.items():
            ids[topic] = entry["id"]
            at.update(_places(topic, entry["at"]))
            new.update(_places(topic, entry.get("new", {})))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PositionError(
            "the position is not one of a Kafka source",
            who=WHO,
            expected='{"topics": {"orders": {"id": ..., "at": {"0": 17}}}}',
            got=repr(position)[:200],
            fix="use a new checkpoint, or the source that wrote this one",
        ) from error
    return Offsets(at, new, ids)


def _places(topic: str, offsets: dict[str, int]) -> Iterator[tuple[Place, int]]:
    for partition, offset in offsets.items():
        if type(offset) is not int or offset < 0:
            raise ValueError(offset)
        yield (topic, int(partition)), offset


def ranges(start: Offsets, end: Offsets) -> list[Range]:
    """What lies between two positions, by topic and partition; empty ranges are left out.

    Raises:
        PositionError: the end lies before the start.
    """
    found = []
    for place in sorted(end.at):
        topic, partition = place
        same_topic = start.ids.get(topic) == end.ids.get(topic)
        if place in start.at and (same_topic or place not in end.new):
            begin = start.at[place]
        else:
            begin = end.new.get(place, 0)
        if end.at[place] < begin:
            # A log that was cut off is read on from its new end.
            begin = end.new.get(place, begin)
        if end.at[place] < begin:
            raise PositionError(
                f"the batch ends before it begins in {topic}-{partition}",
                who=WHO,
                expected=f"an end of at least {begin}",
                got=str(end.at[place]),
                fix="use a new checkpoint: these positions are from different topics",
            )
        if end.at[place] > begin:
            found.append(Range(topic, partition, begin, end.at[place]))
    return found


def parts(found: list[Range], *, split_rows: int | None, group_rows: int) -> list[KafkaPart]:
    """One part per range; large ranges are split and small ones grouped if the user says so."""
    pieces = found
    if split_rows is not None:
        pieces = [
            Range(r.topic, r.partition, begin, min(begin + split_rows, r.end))
            for r in found
            for begin in range(r.start, r.end, split_rows)
        ]
    made: list[KafkaPart] = []
    small: list[Range] = []
    rows = 0
    for piece in pieces:
        if len(piece) >= group_rows or split_rows is not None:
            made.append(KafkaPart((piece,)))
            continue
        if small and rows + len(piece) > group_rows:
            made.append(KafkaPart(tuple(small)))
            small, rows = [], 0
        small.append(piece)
        rows += len(piece)
    if small:
        made.append(KafkaPart(tuple(small)))
    return made
