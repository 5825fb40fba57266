"""The driver's side of the source: what there is, what the next batch takes, how far behind."""

from __future__ import annotations

import logging
import re
import time

from confluent_kafka import KafkaException, TopicPartition

from penstock.contracts import Limit, Planner, Position
from penstock.contracts.errors import DataLossError, EphemeralError, PositionError, ReadError
from penstock_kafka import where
from penstock_kafka.cluster import Cluster
from penstock_kafka.faults import read_fault
from penstock_kafka.fetch import sample
from penstock_kafka.limits import spread
from penstock_kafka.positions import KafkaPart, Offsets, Place, Range, parse, parts, ranges
from penstock_kafka.source import KafkaSource
from penstock_kafka.where import EARLIEST, LATEST, Where
from penstock_kafka.who import WHO

log = logging.getLogger("penstock.kafka")
GONE = 5.0
"""Seconds after which a topic that is not there counts as deleted."""
FRESH = 1.0
"""Seconds for which ends of partitions are believed when the lag is told."""
SAMPLED = 8
"""Partitions from which sizes are sampled at most."""
GUESSED = 1000.0
"""Bytes of a record while none could be looked at."""


class KafkaPlanner(Planner):
    """One admin client for the life of the query."""

    def __init__(self, source: KafkaSource) -> None:
        self.source = source
        self.cluster = Cluster(source)
        self._places: list[Place] = []
        self._ids: dict[str, str | None] = {}
        self._missing: list[str] = []
        self._told: set[object] = set()
        self._size: float | None = None
        self._durable: Position | None = None
        self._looked: float | None = None
        self._waiting_since: float | None = None
        self._seen: tuple[float, dict[Place, int]] = (0.0, {})

    def initial(self) -> Position:
        self._look(fresh=True)
        if self._missing:
            raise _no_topic(self._missing)
        for option in ("start", "end"):
            where.check_places(getattr(self.source, option), self._places, option)
        return Offsets(self._named("start", EARLIEST), {}, self._ids).position()

    def final(self) -> Position:
        start = parse(self.initial())
        at = self._named("end", LATEST)
        at = {place: max(offset, start.at[place]) for place, offset in at.items()}
        return Offsets(at, {}, self._ids).position()

    def latest(self, after: Position, limit: Limit, until: Position | None = None) -> Position:
        return self._advance(after, limit, until, may_wait=until is None)

    def available(self, after: Position) -> Position:
        return self._advance(after, Limit(), None, may_wait=False)

    def _advance(
        self, after: Position, limit: Limit, until: Position | None, *, may_wait: bool
    ) -> Position:
        known = parse(after)
        ends = self._look_at_ends(known)
        self._seen, seen = (time.monotonic(), ends), self._seen[1]
        lost = self._lost_topics(known, seen)
        cut = self._cut_off(known, ends)
        begun = self._begun(known)
        before = {**begun, **known.at}
        available = {
            place: max(0, end - before[place]) for place, end in self._wanted(ends, until).items()
        }
        waits = may_wait and self._wait(before, available)
        taken = {} if waits else self._take(before, available, limit)
        if not any(taken.values()) and not lost and not cut:
            return after
        at = {place: before[place] + taken.get(place, 0) for place in before}
        return Offsets(at, {**begun, **cut}, {**known.ids, **self._ids}).position()

    def plan(self, start: Position, end: Position) -> list[KafkaPart]:
        if start == end:
            return []
        last = parse(end)
        found = self._still_there(ranges(parse(start), last), last.ids)
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
            names = list(filter(self._wants, self.cluster.names()))
        found = self.cluster.describe(names)
        self._missing = [name for name in names if name not in found]
        if self.source.partitions is not None:
            named = self.source.partitions.items()
            self._places = sorted((t, p) for t, ps in named if t in found for p in ps)
            self._refuse_missing({topic: count for topic, (count, _) in found.items()})
        else:
            self._places = sorted((t, p) for t, (count, _) in found.items() for p in range(count))
        self._ids = {topic: made for topic, (_, made) in found.items()}
        self._looked = now

    def _wants(self, topic: str) -> bool:
        """Whether the options name this topic, be it there or not."""
        if self.source.pattern is not None:
            return re.fullmatch(self.source.pattern, topic) is not None
        return topic in (self.source.topics or self.source.partitions or ())

    def _look_at_ends(self, known: Offsets) -> dict[Place, int]:
        """Where partitions end; what looks wrong is looked at again, with fresh eyes."""
        for fresh in (False, True):
            self._look(fresh=fresh)
            self._await_missing(known)
            try:
                ends = self.cluster.ends(self._places)
            except ReadError as error:
                if fresh or isinstance(error, EphemeralError):
                    raise
                continue
            if all(end >= known.at.get(place, 0) for place, end in ends.items()):
                break
        return ends

    def _await_missing(self, known: Offsets) -> None:
        """A broker that has just begun may not know a topic yet: it is gone if it stays away."""
        read = {topic for topic, _ in known.at if self._wants(topic)}
        deadline = time.monotonic() + GONE
        while read - self._ids.keys() and time.monotonic() < deadline:
            time.sleep(0.1)
            self._look(fresh=True)

    def _refuse_missing(self, counts: dict[str, int]) -> None:
        missing = [f"{t}-{p}" for t, p in self._places if p >= counts[t]]
        if missing:
            raise PositionError(
                "partitions do not exist",
                who=WHO,
                got=", ".join(missing),
                fix="correct the option partitions",
            )

    def _resolve(self, option: str, default: Where) -> tuple[dict[Place, Where], dict[Place, int]]:
        raw = getattr(self.source, option)
        named = {(t, p): where.where_of(raw, t, p, option, default) for t, p in self._places}
        return named, self.cluster.resolve(named)

    def _named(self, option: str, default: Where) -> dict[Place, int]:
        """The offsets that an option names.

        Raises:
            PositionError: one lies beyond the end of its partition.
        """
        named, found = self._resolve(option, default)
        exact = [place for place, at in named.items() if at.kind == "offset"]
        ends = self.cluster.ends(exact)
        for topic, partition in exact:
            if found[topic, partition] > ends[topic, partition]:
                raise PositionError(
                    f"the option {option} lies beyond the end of {topic}-{partition}",
                    who=WHO,
                    expected=f"at most {ends[topic, partition]}",
                    got=str(found[topic, partition]),
                    fix=f"correct the option {option}",
                )
        return found

    def _wanted(self, ends: dict[Place, int], until: Position | None) -> dict[Place, int]:
        """How far to read: to the ends, to where the option `end` says, never beyond `until`."""
        wanted = ends
        if self.source.end != "latest":
            named = self._resolve("end", LATEST)[1]
            wanted = {place: min(end, named[place]) for place, end in ends.items()}
        if until is not None:
            last = parse(until).at
            wanted = {
                place: min(end, last[place]) for place, end in wanted.items() if place in last
            }
        return wanted

    def _begun(self, known: Offsets) -> dict[Place, int]:
        fresh = [place for place in self._places if place not in known.at]
        return self.cluster.resolve(dict.fromkeys(fresh, EARLIEST)) if fresh else {}

    def _lost_topics(self, known: Offsets, seen: dict[Place, int]) -> bool:
        """Forget topics that were deleted or made anew; whether there are any."""
        if strange := [t for t in self._missing if t not in known.ids]:
            if self.source.on_data_loss == "fail":
                raise _no_topic(strange)
            self._tell_once(f"topics do not exist: {', '.join(strange)}")
        lost = False
        for topic, was in known.ids.items():
            now, at = self._ids.get(topic), {p: o for p, o in known.at.items() if p[0] == topic}
            if now is None and not self._wants(topic):
                self._tell_once(f"{topic} is not among the topics any more: its position is kept")
            elif at and now != was and was is not None:
                unread = sum(max(0, seen.get(place, 0) - offset) for place, offset in at.items())
                self._lose(
                    f"the topic {topic} was deleted{' and made anew' if now else ''}; at least "
                    f"{unread} of its records were not read",
                    expected=f"the topic with the id {was}",
                    got=now or "no topic of this name",
                    fix="set on_data_loss=warn to go on; a new topic is read from its beginning",
                )
                lost = True
                for place in at:
                    del known.at[place]
        for topic, partition in sorted(known.at.keys() - set(self._places)):
            if self._wants(topic):
                self._tell_once(f"{topic}-{partition} is not read any more: its position is kept")
        return lost

    def _cut_off(self, known: Offsets, ends: dict[Place, int]) -> dict[Place, int]:
        """Logs that end before the position; they are read on from there."""
        cut = {}
        for place, end in ends.items():
            if place in known.at and end < known.at[place]:
                self._lose(
                    f"the position lies {known.at[place] - end} records beyond the end of "
                    f"{place[0]}-{place[1]}",
                    expected=f"at most {end}",
                    got=str(known.at[place]),
                    fix="the log was cut off, or the checkpoint is of another cluster; "
                    "on_data_loss=warn goes on from its end",
                )
                known.at[place] = cut[place] = end
        return cut

    def _still_there(self, found: list[Range], ids: dict[str, str | None]) -> list[Range]:
        """A batch that is planned again must not read another topic of the same name."""
        if self._looked is None:
            self._look(fresh=True)
        kept = []
        for each in found:
            was, now = ids.get(each.topic), self._ids.get(each.topic)
            if was is None or was == now or not self._wants(each.topic):
                kept.append(each)
                continue
            self._lose(
                f"{len(each)} records of {each.topic}-{each.partition} were deleted with their "
                "topic before they were read",
                expected=f"the topic with the id {was}",
                got=now or "no topic of this name",
                fix="set on_data_loss=warn to go on without them",
            )
        return kept

    def _lose(self, message: str, **facts: str) -> None:
        lost = DataLossError(message, who=WHO, **facts)
        if self.source.on_data_loss == "fail":
            raise lost
        log.warning("%s", lost)

    def _tell_once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            log.warning("kafka: %s", message)

    def _take(
        self, before: dict[Place, int], available: dict[Place, int], limit: Limit
    ) -> dict[Place, int]:
        """A share of each within the limit; bytes are turned into rows by the next records."""
        most = limit.rows
        if limit.bytes is not None and any(available.values()):
            fitting = max(1, int(limit.bytes / self._bytes_each(before, available)))
            most = fitting if most is None else min(most, fitting)
        return available if most is None else spread(available, most)

    def _wait(self, before: dict[Place, int], available: dict[Place, int]) -> bool:
        """Whether a batch would be too small, and its rows have not waited for long."""
        rows, least, bytes_ = sum(available.values()), self.source.min_rows, self.source.min_bytes
        if not rows or (least is None and bytes_ is None):
            return False
        first = self._waiting_since is None
        self._waiting_since = self._waiting_since or time.monotonic()
        small = least is not None and rows < least
        if not small and bytes_ is not None:
            small = rows * self._bytes_each(before, available, anew=first) < bytes_
        if small and time.monotonic() - self._waiting_since < self.source.max_wait:
            return True
        self._waiting_since = None
        return False

    def _bytes_each(
        self, before: dict[Place, int], available: dict[Place, int], *, anew: bool = True
    ) -> float:
        if anew or self._size is None:
            starts = [(*place, before[place]) for place, rows in available.items() if rows]
            self._size = sample(self.source, starts[:SAMPLED]) or self._size
        return self._size or GUESSED


def _no_topic(names: list[str]) -> ReadError:
    return ReadError(
        f"a topic does not exist: {', '.join(names)}",
        who=WHO,
        fix="create the topic, or correct the option topics",
    )
