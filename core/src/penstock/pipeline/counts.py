"""How many records went into and out of each node; additive, so tasks' counts sum up."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen


@frozen
class Count:
    """The records of one node.

    Attributes:
        rows_in: What it was given, error rows that only passed by not counted.
        rows_out: What it gave on.
        errors: Became dead letters.
        skipped: Failed and were left out, by policy.
        retried: Tries beyond the first.
    """

    rows_in: int = 0
    rows_out: int = 0
    errors: int = 0
    skipped: int = 0
    retried: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            self.errors + other.errors,
            self.skipped + other.skipped,
            self.retried + other.retried,
        )


@frozen
class Counts:
    """Counts by stage name."""

    stages: dict[str, Count] = field(factory=dict)

    def __add__(self, other: Counts) -> Counts:
        merged = dict(self.stages)
        for name, count in other.stages.items():
            merged[name] = merged.get(name, Count()) + count
        return Counts(merged)

    def __getitem__(self, name: str) -> Count:
        return self.stages.get(name, Count())

    def to_json(self) -> dict[str, list[int]]:
        """As plain values, for a receipt or an accumulator."""
        return {
            name: [c.rows_in, c.rows_out, c.errors, c.skipped, c.retried]
            for name, c in self.stages.items()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, list[int]]) -> Counts:
        """What `to_json` wrote."""
        return cls({name: Count(*numbers) for name, numbers in data.items()})
