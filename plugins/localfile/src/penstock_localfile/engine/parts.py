"""What one task reads: ranges of files, packed in the order of discovery."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from attrs import frozen

from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.lines import NEWLINE, Ends

OPEN_COST = 1 << 20
"""What opening a file is worth in bytes when small files are packed together."""


@frozen
class Range:
    """The bytes of one file that one task reads; a record belongs where its first byte lies.

    Attributes:
        file: The file as it was discovered.
        start: First byte.
        end: One past the last byte.
    """

    file: Logged
    start: int
    end: int

    @property
    def whole(self) -> bool:
        """Whether it is the entire file."""
        return self.start == 0 and self.end == self.file.entry.size


@frozen
class Part:
    """What one task reads.

    Attributes:
        ranges: In the order of discovery.
        learned: What was learned from the files about their schema, for every task alike.
    """

    ranges: tuple[Range, ...]
    learned: str = ""


@frozen
class Cutting:
    """How limits are honoured within files of a format.

    Attributes:
        divides: Whether a file of this name may be read in byte ranges.
        lines: Whether its records are its lines, so that a batch may end between two of them.
        single: Whether every file is exactly one row.
        ends: Where lines end.
    """

    divides: Callable[[bytes], bool]
    lines: bool = False
    single: bool = False
    ends: Ends = NEWLINE


@frozen
class Packing:
    """How files become parts. Depends on nothing but its own values and the files' sizes.

    Attributes:
        split: No part of a divisible file is larger.
        parts: Aim for at least so many parts, if there is work for them.
        divides: Whether a file of this name may be read in ranges.
    """

    split: int
    parts: int
    divides: Callable[[bytes], bool]

    def pack(self, ranges: Iterable[Range], learned: str = "") -> list[Part]:
        """Cut large ranges, join small neighbours; the order stays."""
        given = list(ranges)
        total = sum(r.end - r.start + OPEN_COST for r in given)
        target = min(self.split, max(OPEN_COST, -(-total // self.parts)))
        packed: list[Part] = []
        current: list[Range] = []
        weight = 0
        for piece in self._pieces(given, target):
            cost = piece.end - piece.start + OPEN_COST
            if current and weight + cost > target + OPEN_COST:
                packed.append(Part(tuple(current), learned))
                current, weight = [], 0
            current.append(piece)
            weight += cost
        if current:
            packed.append(Part(tuple(current), learned))
        return packed

    def _pieces(self, ranges: list[Range], target: int) -> Iterable[Range]:
        for each in ranges:
            size = each.end - each.start
            if size <= target or not self.divides(each.file.entry.path):
                yield each
                continue
            count = -(-size // target)
            edges = [each.start + size * i // count for i in range(count + 1)]
            for start, end in itertools.pairwise(edges):
                yield Range(each.file, start, end)
