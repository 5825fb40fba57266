"""How much of what is there goes into one batch."""

from __future__ import annotations

from penstock_kafka.positions import Place


def spread(available: dict[Place, int], rows: int) -> dict[Place, int]:
    """Share `rows` fairly: what a small partition leaves goes to the larger ones.

    At least one row is given if there is one, whatever the limit.
    """
    if sum(available.values()) <= rows:
        return dict(available)
    left = max(rows, 1)
    given: dict[Place, int] = {}
    waiting = sorted((count, place) for place, count in available.items() if count > 0)
    while waiting:
        count, place = waiting.pop(0)
        # Rounded up, so that a limit below the number of partitions still moves.
        share = -(-left // (len(waiting) + 1))
        given[place] = min(count, share)
        left -= given[place]
    return given
