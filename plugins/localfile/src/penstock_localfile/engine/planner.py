"""What the next batch holds: a stretch of the ledger, cut within a file where that is possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from penstock.contracts import Limit, Planner, Position
from penstock.contracts.errors import OptionError, PositionError
from penstock_localfile.engine.afterwards import Afterwards
from penstock_localfile.engine.discovery import Discovery, Rules
from penstock_localfile.engine.ledger import Ledger, Logged
from penstock_localfile.engine.parts import Cutting, Packing, Part, Range
from penstock_localfile.engine.storage import Storage

_CHUNK = 1 << 20
_KEEP = Afterwards()


@frozen(order=True)
class Place:
    """A position in the ledger: so many files, and so many bytes of the next one."""

    files: int
    byte: int = 0


class FilePlanner(Planner):
    """Plans batches of files.

    A position is `{"log": ledger, "files": n}`, with `"byte"` when it lies within a file. It stays
    that small however many files there are; the ledger in the state folder holds the rest.
    """

    def __init__(
        self,
        storage: Storage,
        rules: Rules,
        packing: Packing,
        cutting: Cutting,
        state: str | None,
        afterwards: Afterwards = _KEEP,
        learn: Callable[[], str] | None = None,
    ) -> None:
        self._storage = storage
        self._packing = packing
        self._cutting = cutting
        self.ledger = Ledger(state, storage.origin)
        self.discovery = Discovery(storage, rules, self.ledger)
        self._learn = learn
        self._afterwards = afterwards
        afterwards.resume(storage, self.ledger)

    def initial(self) -> Position:
        """Before the first file."""
        return self._position(Place(0))

    def latest(self, after: Position, limit: Limit, until: Position | None = None) -> Position:
        """The end of the next batch."""
        if not self.ledger.durable:
            raise OptionError(
                "a stream over files must remember what it has read",
                expected="state: a durable folder for this query alone",
                got="no state",
                fix='add .option("state", "<your checkpoint>/files"), or run it in a pipeline',
            )
        return self._latest(after, limit, until)

    def _latest(self, after: Position, limit: Limit, until: Position | None) -> Position:
        start = self._place(after)
        if until is not None:
            return self._position(max(start, self._within(start, limit, self._place(until))))
        end = self._within(start, limit, Place(self.ledger.count))
        if end == Place(self.ledger.count) and self.discovery.look():
            end = self._within(start, limit, Place(self.ledger.count))
        return self._position(end)

    def final(self) -> Position:
        """All that is there now. A read that ends needs no state."""
        return self._latest(self.initial(), Limit(), None)

    def plan(self, start: Position, end: Position) -> list[Part]:
        """The parts between two positions."""
        ranges = list(self._ranges(self._place(start), self._place(end)))
        return self._packing.pack(ranges, self._learned()) if ranges else []

    def _learned(self) -> str:
        """What the first file taught, kept so that every batch is read alike."""
        if self._learn is None:
            return ""
        known = self.ledger.get("learned")
        if not known:
            known = self._learn()
            self.ledger.put("learned", known)
        return known

    def files(self, start: Position, end: Position) -> list[Logged]:
        """The files that end between two positions."""
        return self.ledger.between(self._place(start).files, self._place(end).files)

    def durable(self, end: Position) -> None:
        """Delete, archive or rename what was read to its end, if that was asked for."""
        self._afterwards.settle(self._storage, self.ledger, self._place(end).files)

    def lag(self, at: Position) -> dict[str, int]:
        """Files discovered and not yet read."""
        return {"files": self.ledger.count - self._place(at).files}

    def close(self) -> None:
        """Close the ledger."""
        self.ledger.close()

    def _position(self, place: Place) -> Position:
        position: Position = {"log": self.ledger.id, "files": place.files}
        if place.byte:
            position["byte"] = place.byte
        return position

    def _place(self, position: Position) -> Place:
        files, byte = position.get("files"), position.get("byte", 0)
        if not (_is_count(files) and _is_count(byte)) or position.keys() - {"log", "files", "byte"}:
            raise PositionError(
                "this is not a position of a file source",
                expected=f"like {self.initial()}",
                got=repr(position)[:200],
                fix="use a new checkpoint for a new source",
            )
        if position.get("log") != self.ledger.id:
            raise PositionError(
                "the position belongs to another record of seen files",
                expected=f"log {self.ledger.id}",
                got=f"log {position.get('log')}",
                fix="keep the state folder and the checkpoint together; if the state is lost, "
                "start with a new checkpoint",
            )
        if files > self.ledger.count or (files == self.ledger.count and byte):
            raise PositionError(
                "the position lies in the future of this source",
                expected=f"at most {self.ledger.count} files",
                got=repr(position),
                fix="restore the state folder that belongs to this checkpoint",
            )
        return Place(files, byte)

    def _ranges(self, start: Place, end: Place) -> Iterator[Range]:
        stop = end.files + (1 if end.byte else 0)
        for file in self.ledger.between(start.files, stop):
            first = start.byte if file.number == start.files else 0
            last = end.byte if file.number == end.files else file.entry.size
            if first < last or file.entry.size == 0:
                yield Range(file, first, last)

    def _within(self, start: Place, limit: Limit, end: Place) -> Place:
        """The furthest place after `start` that the limit and `end` allow."""
        if limit == Limit() or start >= end:
            return max(start, end)
        at, files, taken, rows = start, 0, 0, 0
        for file in self.ledger.from_on(start.files):
            stop = end.byte if file.number == end.files else file.entry.size
            if Place(file.number, at.byte) >= end or (files and files == limit.files):
                break
            if self._lines_of(file):
                cut, lines = self._cut(file, at.byte, stop, limit, taken, rows)
                if cut == at.byte < stop:
                    break
            else:
                cut, lines = stop, self._at_most(file, stop - at.byte, limit)
                size = cut - at.byte
                too_large = limit.bytes is not None and taken + size > limit.bytes
                too_long = limit.rows is not None and rows + lines > limit.rows
                if at > start and (too_large or too_long):
                    break
            taken, rows, files = taken + cut - at.byte, rows + lines, files + 1
            if cut < file.entry.size:
                return Place(file.number, cut)
            at = Place(file.number + 1)
        return at

    def _at_most(self, file: Logged, size: int, limit: Limit) -> int:
        """How many rows a file that is not looked into may hold."""
        if self._cutting.single or limit.rows is None:
            return 1
        by_lines = self._cutting.lines and self._cutting.divides(file.entry.path)
        return min(limit.rows, size) if by_lines else limit.rows  # a line takes a byte at least

    def _lines_of(self, file: Logged) -> bool:
        cutting = self._cutting
        cheap = self._storage.cheap_reads
        return cutting.lines and cheap and cutting.divides(file.entry.path)

    def _cut(
        self, file: Logged, start: int, stop: int, limit: Limit, taken: int, rows: int
    ) -> tuple[int, int]:
        """How far into a file the limit reaches, at the end of a line, and how many lines."""
        room = stop - start if limit.bytes is None else limit.bytes - taken
        left = None if limit.rows is None else max(limit.rows, 1) - rows
        first = taken == 0 and rows == 0
        if not first and (room <= 0 or left == 0) and stop > start:
            return start, 0
        if left is None and room >= stop - start:
            return stop, 0
        return self._scan(file, start, stop, room, left, first)

    def _scan(
        self, file: Logged, start: int, stop: int, room: int, left: int | None, first: bool
    ) -> tuple[int, int]:
        ends = self._cutting.ends
        opened = self._storage.open(file.entry.path, start)
        try:
            at, cut, lines = start, start, 0
            while at < stop:
                block = opened.read(min(_CHUNK, stop - at))
                if not block:
                    break
                while ends.alone and block.endswith(b"\r") and at + len(block) < stop:
                    block += opened.read(1) or b"\n"  # is it the half of an end?
                found = ends.all(block) + at
                fit = int(found.searchsorted(start + room, side="right"))
                if fit == 0 and first and cut == start and len(found):
                    return int(found[0]), 1
                if left is not None:
                    fit = min(fit, left - lines)
                if fit:
                    cut, lines = int(found[fit - 1]), lines + fit
                if fit < len(found) or lines == left:
                    return cut, lines
                at += len(block)
            tail = cut < stop
            if tail and stop - start > room and not (first and cut == start):
                return cut, lines
            return stop, lines + (1 if tail else 0)
        finally:
            opened.close()


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
