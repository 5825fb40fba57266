"""Broken replayable sources."""

import os
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve

from penstock.conformance.reference.folder_source import FolderPlanner, FolderSource, Piece
from penstock.conformance.reference.segments import listed
from penstock.contracts import ENVELOPE, Limit
from penstock.contracts.errors import PositionError
from twins.making import broken

KEPT = []


def changed(rows, **columns):
    arrays = [columns.get(f.name, rows.column(f.name)) for f in rows.schema]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def stamped(rows, **fields):
    stamp = rows.column("stamp")
    arrays = [fields.get(f.name, stamp.field(f.name)) for f in stamp.type]
    return changed(rows, stamp=pa.StructArray.from_arrays(arrays, fields=list(stamp.type)))


@broken("SRC-01")
class SaysOneTypeGivesAnother(FolderSource):
    def read(self, part):
        for rows in super().read(part):
            yield rows.set_column(4, "id", rows.column("id").cast(pa.large_string()))


@broken("SRC-02", "SRC-24")
class ForgetsTheLastRow(FolderSource):
    def read(self, part):
        for rows in super().read(part):
            yield rows.slice(0, rows.num_rows - 1)


@broken("SRC-03")
class ReadsBackwards(FolderSource):
    def read(self, part):
        for rows in super().read(part):
            yield rows.take(pa.array(range(rows.num_rows - 1, -1, -1)))


@broken("SRC-04")
class StampsBackwards(FolderSource):
    def read(self, part):
        for rows in super().read(part):
            yield stamped(rows, position=pc.subtract(10**9, rows.column("stamp").field("position")))


@broken("SRC-05")
class OnePartForAll(FolderSource):
    def planner(self, ctx):
        return OnePart(self)

    def read(self, part):
        for piece in part:
            yield from super().read(piece)


class OnePart(FolderPlanner):
    def plan(self, start, end):
        pieces = super().plan(start, end)
        return [pieces] if pieces else []


@broken("SRC-06")
class ReadsIdleSplitsAgain(FolderSource):
    def planner(self, ctx):
        return Again(self)


class Again(FolderPlanner):
    def plan(self, start, end):
        idle = {split: 0 if n == end.get(split) else n for split, n in start.items()}
        return super().plan(idle if idle != end and start != end else start, end)


@broken("SRC-07")
class AlwaysHasNews(FolderSource):
    def planner(self, ctx):
        return Restless(self)


class Restless(FolderPlanner):
    def latest(self, after, limit, until=None):
        found = super().latest({k: v for k, v in after.items() if k != "tick"}, limit, until)
        return {**found, "tick": after.get("tick", 0) + 1}

    def plan(self, start, end):
        return super().plan(*({k: v for k, v in p.items() if k != "tick"} for p in (start, end)))


@broken("SRC-08")
class LooksOnce(FolderSource):
    def planner(self, ctx):
        return Frozen(self)


class Frozen(FolderPlanner):
    def __init__(self, source):
        super().__init__(source)
        self._seen = None

    def _listed(self):
        if self._seen is None:
            self._seen = listed(self._root)
        return self._seen


@broken("SRC-09")
class OneStampForTwo(FolderSource):
    def read(self, part):
        for rows in super().read(part):
            yield stamped(rows, part=pa.repeat("0", rows.num_rows))


@broken("SRC-09")
class StampsFall(FolderSource):
    def read(self, part):
        for rows in super().read(part):
            yield stamped(rows, position=pc.subtract(10**9, rows.column("stamp").field("position")))


@broken("SRC-10")
class StartsOneTooEarly(FolderSource):
    def planner(self, ctx):
        return Early(self)


class Early(FolderPlanner):
    def plan(self, start, end):
        return super().plan({split: max(n - 1, 0) for split, n in start.items()}, end)


@broken("SRC-11")
class NeverTheSameTwice(FolderSource):
    def read(self, part):
        for rows in super().read(part):
            values = [v + b" " + os.urandom(4) for v in rows.column("value").to_pylist()]
            yield changed(rows, value=pa.array(values, pa.binary()))


@broken("SRC-12")
class KnowsOnlyOldSplits(FolderSource):
    def planner(self, ctx):
        return OldSplits(self)


class OldSplits(FolderPlanner):
    def latest(self, after, limit, until=None):
        found = super().latest(after, limit, until)
        return {split: n for split, n in found.items() if split in after} if after else found


@broken("SRC-13")
class TakesAnyPosition(FolderSource):
    def planner(self, ctx):
        return Credulous(self)


class Credulous(FolderPlanner):
    def plan(self, start, end):
        try:
            return super().plan(start, end)
        except PositionError:
            return []


@broken("SRC-13")
class GoesOnFromAnywhere(FolderSource):
    def planner(self, ctx):
        return Unasking(self)


class Unasking(FolderPlanner):
    def latest(self, after, limit, until=None):
        try:
            return super().latest(after, limit, until)
        except PositionError:
            return after


@broken("SRC-14")
class IgnoresRowLimits(FolderSource):
    def planner(self, ctx):
        return NoRows(self)


class NoRows(FolderPlanner):
    def latest(self, after, limit, until=None):
        return super().latest(after, evolve(limit, rows=None), until)


@broken("SRC-15")
class IgnoresByteLimits(FolderSource):
    def planner(self, ctx):
        return NoBytes(self)


class NoBytes(FolderPlanner):
    def latest(self, after, limit, until=None):
        return super().latest(after, evolve(limit, bytes=None), until)


@broken("SRC-16")
class ReadsAllAtOnce(FolderSource):
    def read(self, part):
        table = pa.Table.from_batches(list(super().read(part)), schema=ENVELOPE)
        yield from table.combine_chunks().to_batches()


@broken("SRC-17")
class ForgetsLimitsWhenItMustEnd(FolderSource):
    def planner(self, ctx):
        return Hasty(self)


class Hasty(FolderPlanner):
    def latest(self, after, limit, until=None):
        return super().latest(after, limit if until is None else Limit(), until)


@broken("SRC-18")
class AnHourOff(FolderSource):
    def read(self, part):
        for rows in super().read(part):
            yield changed(rows, event_time=pc.add(rows.column("event_time"), timedelta(hours=1)))


@broken("SRC-19")
class NeverBehind(FolderSource):
    def planner(self, ctx):
        return Boastful(self)


class Boastful(FolderPlanner):
    def lag(self, at):
        return dict.fromkeys(super().lag(at), 0)


@broken("SRC-20")
class GivesUpForGood(FolderSource):
    def planner(self, ctx):
        return GivenUp(self)


class GivenUp(FolderPlanner):
    def latest(self, after, limit, until=None):
        if not self._root.is_dir():
            raise PositionError("the folder is not there")
        return super().latest(after, limit, until)


@broken("SRC-21")
class KeepsFilesOpen(FolderSource):
    def read(self, part: Piece):
        KEPT.append(open(part.path, "rb"))  # noqa: SIM115
        yield from super().read(part)


@broken("SRC-22")
class LosesKeys(FolderSource):
    def read(self, part):
        for rows in super().read(part):
            yield changed(rows, key=pa.nulls(rows.num_rows, pa.binary()))


@broken("SRC-23")
class LosesHeaders(FolderSource):
    def read(self, part):
        for rows in super().read(part):
            headers = rows.schema.field("headers").type
            yield changed(rows, headers=pa.nulls(rows.num_rows, headers))


@broken("ERR-03")
class StampsNothing(FolderSource):
    def read(self, part):
        for rows in super().read(part):
            stamp = rows.column("stamp")
            yield changed(rows, stamp=pa.nulls(rows.num_rows, stamp.type))
