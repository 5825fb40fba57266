"""What one task reads: ranges of files, packed in the order of discovery."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from attrs import frozen

from penstock_localfile.engine.ledger import Logged

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


Part = tuple[Range, ...]


@frozen
class Packing:
    """How files become parts. Depends on nothing but its own values and the files' sizes.

    Attributes:
        split: No part of a divisible file is larger.
        parts: Aim for at least so many parts, if there is work for them.
        divisible: Whether files may be read in ranges.
    """

    split: int
    parts: int
    divisible: bool

    def pack(self, ranges: Iterable[Range]) -> list[Part]:
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
                packed.append(tuple(current))
                current, weight = [], 0
            current.append(piece)
            weight += cost
        if current:
            packed.append(tuple(current))
        return packed

    def _pieces(self, ranges: list[Range], target: int) -> Iterable[Range]:
        for each in ranges:
            size = each.end - each.start
            if not self.divisible or size <= target:
                yield each
                continue
            count = -(-size // target)
            edges = [each.start + size * i // count for i in range(count + 1)]
            for start, end in itertools.pairwise(edges):
                yield Range(each.file, start, end)
