"""Partitions merged by event time, as a zip fastener: each keeps its own order.

A record counts as late as the latest one before it in its partition; ties go to the partition
that is named first. That is a total order over a batch, so that a replay gives the same one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock_kafka.positions import Place

_NO_TIME = np.iinfo(np.int64).min


class Merge:
    """Takes rows of partitions as they come, and gives those that nothing can come before."""

    def __init__(self, places: list[Place]) -> None:
        self.places = sorted(places)
        self._last: dict[Place, int] = dict.fromkeys(places, _NO_TIME)
        self._ended: set[Place] = set()
        self._held: dict[Place, list[tuple[np.ndarray, pa.RecordBatch]]] = {p: [] for p in places}

    def add(self, place: Place, rows: pa.RecordBatch) -> None:
        """The next rows of a partition."""
        name = "event_time" if "event_time" in rows.schema.names else "timestamp"
        moments = rows.column(name).cast(pa.int64()).fill_null(_NO_TIME)
        times = np.maximum.accumulate(moments.to_numpy(zero_copy_only=False))
        times = np.maximum(times, self._last[place])
        self._last[place] = int(times[-1])
        self._held[place].append((times, rows))

    def end(self, place: Place) -> None:
        """Nothing more comes from this partition."""
        self._ended.add(place)

    def ahead(self, place: Place) -> int:
        """How many rows of a partition wait for the others."""
        return sum(len(times) for times, _ in self._held[place])

    def behind(self) -> Place | None:
        """The partition all others wait for."""
        waiting = [(self._last[p], p) for p in self.places if p not in self._ended]
        return min(waiting)[1] if waiting else None

    def ready(self) -> pa.RecordBatch | None:
        """Rows in their final order; None if all must wait."""
        slowest = self.behind()
        chosen: list[pa.RecordBatch] = []
        keys: list[np.ndarray] = []
        for place in self.places:
            for times, rows in self._take(place, slowest):
                keys.append(times)
                chosen.append(rows)
        if not chosen:
            return None
        together = pa.concat_batches(chosen)
        # Stable: what is equal stays in the order of places, and of offsets within one.
        order = np.argsort(np.concatenate(keys), kind="stable")
        return together.take(pa.array(order))

    def _take(self, place: Place, slowest: Place | None) -> list[tuple[np.ndarray, pa.RecordBatch]]:
        held = self._held[place]
        if slowest is None:
            self._held[place] = []
            return held
        side = "right" if place <= slowest else "left"
        taken, kept = [], []
        for times, rows in held:
            cut = int(np.searchsorted(times, self._last[slowest], side=side))
            if cut:
                taken.append((times[:cut], rows.slice(0, cut)))
            if cut < len(times):
                kept.append((times[cut:], rows.slice(cut)))
        self._held[place] = kept
        return taken
