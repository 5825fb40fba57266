"""The driver's side of the source: what there is, what the next batch takes, how far behind."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable

from confluent_kafka import KafkaException, TopicPartition

from penstock.contracts import Limit, Planner, Position
from penstock.contracts.errors import DataLossError, PositionError
from penstock_kafka import where
from penstock_kafka.cluster import Cluster
from penstock_kafka.faults import read_fault
from penstock_kafka.fetch import sample
from penstock_kafka.limits import spread
from penstock_kafka.positions import KafkaPart, Offsets, Place, parse, parts, ranges
from penstock_kafka.source import KafkaSource
from penstock_kafka.where import EARLIEST, LATEST, Where
from penstock_kafka.who import WHO

log = logging.getLogger("penstock.kafka")
FRESH = 1.0
"""Seconds for which ends of partitions are believed when the lag is told."""
SAMPLED = 8
"""Partitions from which sizes are sampled at most."""


class KafkaPlanner(Planner):
    """One admin client for the life of the query."""

    def __init__(self, source: KafkaSource) -> None:
        self.source = source
        self.cluster = Cluster(source)
        self._places: list[Place] = []
        self._ids: dict[str, str | None] = {}
        self._durable: Position | None = None
        self._looked: float | None = None
        self._waiting_since: float | None = None
        self._seen: tuple[float, dict[Place, int]] = (0.0, {})

    def initial(self) -> Position:
        self._look(fresh=True)
        at = self._resolve(self._places, "start", self.source.start, EARLIEST)
        return Offsets(at, {}, self._ids).position()

    def final(self) -> Position:
        start = parse(self.initial())
        at = self._resolve(self._places, "end", self.source.end, LATEST)
        at = {place: max(offset, start.at[place]) for place, offset in at.items()}
        return Offsets(at, {}, self._ids).position()

    def latest(self, after: Position, limit: Limit, until: Position | None = None) -> Position:
        known = parse(after)
        self._look(fresh=False)
        self._recreated(known)
        places = sorted(set(self._places) | set(known.at))
        begun = self._begun(known, places)
        ends = self._ends(places)
        self._seen = (time.monotonic(), ends)
        if until is not None:
            last = parse(until).at
            ends = {place: min(end, last[place]) for place, end in ends.items() if place in last}
        before = {**begun, **known.at}
        available = {}
        for place, end in ends.items():
            if end < before[place] and until is None:
                self._future(place, before[place], end)
            available[place] = max(0, end - before[place])
        taken = self._take(available, self._rows(before, available, limit), until is not None)
        if not any(taken.values()):
            return after
        at = {place: before[place] + taken.get(place, 0) for place in before}
        new = {place: offset for place, offset in begun.items() if place in at}
        return Offsets(at, new, {**known.ids, **self._ids}).position()

    def plan(self, start: Position, end: Position) -> list[KafkaPart]:
        if start == end:
            return []
        found = ranges(parse(start), parse(end))
        if self.source.order == "event_time":
            return [KafkaPart(tuple(found))] if found else []
        return parts(found, split_rows=self.source.split_rows, group_rows=self.source.group_rows)

    def durable(self, end: Position) -> None:
        # Spark and its commit log may both tell of the same batch.
        if self.source.group is None or end == self._durable:
            return
        offsets = [TopicPartition(t, p, offset) for (t, p), offset in parse(end).at.items()]
        try:
            self.cluster.commit(self.source.group, offsets)
        except KafkaException as error:
            # Only lag tools read them; the next batch commits a later offset.
            log.warning("%s", read_fault(f"committing offsets of {self.source.group}", error))
        else:
            self._durable = end

    def lag(self, at: Position) -> dict[str, int]:
        known = parse(at).at
        seen, ends = self._seen
        # A batch was planned just now: asking again would tell the same.
        if time.monotonic() - seen > FRESH or not known.keys() <= ends.keys():
            ends = self.cluster.ends(sorted(known))
        return {f"{t}-{p}": max(0, ends[t, p] - offset) for (t, p), offset in known.items()}

    def close(self) -> None:
        self.cluster.close()

    def _look(self, *, fresh: bool) -> None:
        """Find topics and partitions, at most every `refresh` seconds."""
        now = time.monotonic()
        if not fresh and self._looked is not None and now - self._looked < self.source.refresh:
            return
        names = self.source.topics or list(self.source.partitions or ())
        if self.source.pattern is not None:
            names = list(filter(re.compile(self.source.pattern).fullmatch, self.cluster.names()))
        found = self.cluster.describe(names)
        if self.source.partitions is not None:
            self._places = sorted((t, p) for t, ps in self.source.partitions.items() for p in ps)
            self._refuse_missing({topic: count for topic, (count, _) in found.items()})
        else:
            self._places = sorted((t, p) for t, (count, _) in found.items() for p in range(count))
        self._ids = {topic: made for topic, (_, made) in found.items()}
        self._looked = now

    def _refuse_missing(self, counts: dict[str, int]) -> None:
        missing = [f"{t}-{p}" for t, p in self._places if p >= counts[t]]
        if missing:
            raise PositionError(
                "partitions do not exist",
                who=WHO,
                got=", ".join(missing),
                fix="correct the option partitions",
            )

    def _resolve(
        self, places: Iterable[Place], option: str, raw: object, default: Where
    ) -> dict[Place, int]:
        wanted = {(t, p): where.where_of(raw, t, p, option, default) for t, p in places}
        return self.cluster.resolve(wanted)

    def _ends(self, places: list[Place]) -> dict[Place, int]:
        if self.source.end == "latest":
            return self.cluster.ends(places)
        return self._resolve(places, "end", self.source.end, LATEST)

    def _begun(self, known: Offsets, places: list[Place]) -> dict[Place, int]:
        fresh = [place for place in places if place not in known.at]
        return self.cluster.resolve(dict.fromkeys(fresh, EARLIEST)) if fresh else {}

    def _recreated(self, known: Offsets) -> None:
        for topic, was in known.ids.items():
            now = self._ids.get(topic)
            if was is None or now is None or was == now:
                continue
            lost = DataLossError(
                f"the topic {topic} was deleted and made anew",
                who=WHO,
                expected=f"the topic with the id {was}",
                got=now,
                fix="set on_data_loss=warn to read the new topic from its beginning",
            )
            if self.source.on_data_loss == "fail":
                raise lost
            log.warning("%s", lost)
            for place in [p for p in known.at if p[0] == topic]:
                del known.at[place]

    def _future(self, place: Place, stands: int, end: int) -> None:
        raise PositionError(
            f"the position lies beyond the end of {place[0]}-{place[1]}",
            who=WHO,
            expected=f"at most {end}",
            got=str(stands),
            fix="the topic was made anew or truncated, or the checkpoint is of another cluster",
        )

    def _rows(
        self, before: dict[Place, int], available: dict[Place, int], limit: Limit
    ) -> int | None:
        """The limit in rows; one in bytes is turned into rows by the size of the next records."""
        if limit.bytes is None or not any(available.values()):
            return limit.rows
        starts = [(*place, before[place]) for place, rows in available.items() if rows]
        fitting = max(1, int(limit.bytes / sample(self.source, starts[:SAMPLED])))
        return fitting if limit.rows is None else min(limit.rows, fitting)

    def _take(
        self, available: dict[Place, int], most: int | None, bounded: bool
    ) -> dict[Place, int]:
        rows = sum(available.values())
        if self.source.min_rows is not None and not bounded and rows:
            now = time.monotonic()
            self._waiting_since = self._waiting_since or now
            waited = now - self._waiting_since
            if rows < self.source.min_rows and waited < self.source.max_wait:
                return {}
            self._waiting_since = None
        return available if most is None else spread(available, most)
