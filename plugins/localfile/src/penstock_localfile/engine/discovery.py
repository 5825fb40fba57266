"""Which of the files that are there may be read now, and in which order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Literal

from attrs import frozen

from penstock.contracts.errors import ReadError
from penstock_localfile.engine.ledger import Ledger, Logged
from penstock_localfile.engine.names import hidden, matcher, shown
from penstock_localfile.engine.storage import Entry, Storage

Changed = Literal["ignore", "reprocess", "error"]
Order = Literal["time", "name"]


@frozen
class Rules:
    """What makes a file ready.

    Attributes:
        pattern: A glob over the path below the root; empty: every file.
        recursive: Look into folders below the root.
        hidden: Take names that begin with `.` or `_` too.
        min_age: Seconds since the last change of the file.
        marker: A suffix; a file is ready when a file named like it plus the suffix exists.
        stable: Seconds for which size and time must have stayed as they are, as seen here.
        order: Files of one listing by modification time (then name), or by name.
        changed: What a seen name with other content means.
        below: A folder below the root that is never looked into (the archive).
        ending: Names with this ending are never taken (files renamed after reading).
    """

    pattern: str = ""
    recursive: bool = False
    hidden: bool = False
    min_age: float = 0.0
    marker: str = ""
    stable: float = 0.0
    order: Order = "time"
    changed: Changed = "error"
    below: str = ""
    ending: str = ""

    def leaves_out(self, path: bytes) -> bool:
        """Whether a path is not for us, whatever the pattern says."""
        if self.ending and path.endswith(self.ending.encode()):
            return True
        folder, _, name = path.rpartition(b"/")
        return (not self.hidden and hidden(name)) or self.skips(folder)

    def skips(self, folder: bytes) -> bool:
        """Whether nothing below a folder is for us, so that nobody need look."""
        if self.below and (folder + b"/").startswith(self.below.encode() + b"/"):
            return True
        return not self.hidden and any(hidden(name) for name in folder.split(b"/"))

    @property
    def deep(self) -> bool:
        """Whether folders below the root are looked into."""
        return self.recursive or "/" in self.pattern or "**" in self.pattern


class Discovery:
    """Lists, and adds what is new to the ledger. Lives with the planner.

    Args:
        clock: Seconds since the epoch, for the age of files.
        ticks: Seconds that only rise, for the stable-size rule.
        pause: Waits so many seconds.
    """

    def __init__(
        self,
        storage: Storage,
        rules: Rules,
        ledger: Ledger,
        *,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._storage = storage
        self._rules = rules
        self._ledger = ledger
        self._clock = clock
        self._ticks = ticks
        self._pause = pause
        self._first = True
        self._known: set[int] = set()
        self._watched: dict[Entry, float] = {}

    def look(self) -> int:
        """List; the number of files that were added to the ledger.

        The first listing of a process waits once for what may be stable already: a run that
        ends (a batch read, AvailableNow) would otherwise never see such a file a second time.
        """
        self._ledger.verify()
        ready = self._settled(self._ready())
        if self._first and len(ready) < len(self._watched):
            self._pause(self._rules.stable)
            ready = self._settled(self._ready())
        self._first = False
        fresh = [entry for entry in ready if hash(entry) not in self._known]
        seen = self._ledger.find([entry.path for entry in fresh])
        new: list[tuple[Entry, int]] = []
        for entry in sorted(fresh, key=self._rank):
            before = seen.get(entry.path)
            if before is None:
                new.append((entry, 1))
            elif self._is_changed(before, entry):
                new.append((entry, before.version + 1))
        if new:
            self._ledger.append(new)
        # Only what this listing holds: memory follows the folder, not its history.
        self._known = {hash(entry) for entry in ready}
        return len(new)

    def _candidates(self) -> list[Entry]:
        rules = self._rules
        pattern = matcher(rules.pattern) if rules.pattern else None
        by_name = rules.recursive and "/" not in rules.pattern
        found = []
        for entry in self._storage.walk(recursive=rules.deep, skip=rules.skips):
            path = entry.path
            if rules.leaves_out(path):
                continue
            subject = path.rpartition(b"/")[2] if by_name else path
            if pattern is None or pattern.match(subject):
                found.append(entry)
        return found

    def _ready(self) -> list[Entry]:
        rules = self._rules
        # Markers first: a file listed before its marker may have been half there.
        marked = self._marked() if rules.marker else None
        entries = self._candidates()
        if marked is not None:
            suffix = rules.marker.encode()
            entries = [e for e in entries if e.path in marked and not e.path.endswith(suffix)]
        if rules.min_age > 0:
            timeless = next((e for e in entries if not e.modified), None)
            if timeless is not None:
                raise ReadError(
                    "min_age needs to know when a file was changed, and this system does not tell",
                    got=shown(timeless.path),
                    fix="use stable or marker",
                )
            latest = (self._clock() - rules.min_age) * 1e9
            entries = [e for e in entries if e.modified <= latest]
        return entries

    def _marked(self) -> set[bytes]:
        suffix = self._rules.marker.encode()
        found = self._storage.walk(recursive=self._rules.deep, skip=self._rules.skips)
        return {e.path[: -len(suffix)] for e in found if e.path.endswith(suffix)}

    def _settled(self, entries: list[Entry]) -> list[Entry]:
        if self._rules.stable <= 0:
            return entries
        now = self._ticks()
        self._watched = {e: self._watched.get(e, now) for e in entries}
        return [e for e, since in self._watched.items() if now - since >= self._rules.stable]

    def _rank(self, entry: Entry) -> tuple[int, bytes]:
        return (entry.modified if self._rules.order == "time" else 0, entry.path)

    def _is_changed(self, before: Logged, now: Entry) -> bool:
        if before.entry == now or self._rules.changed == "ignore":
            return False
        if self._rules.changed == "reprocess":
            return True
        raise ReadError(
            "a file that was already taken has other content now",
            expected=_facts([before.entry]),
            got=_facts([now]),
            fix="write under new names, give files time with min_age, stable or marker, or set "
            "changed=reprocess or changed=ignore",
        )


def _facts(entries: Iterable[Entry]) -> str:
    return "; ".join(
        f"{shown(e.path)}, {e.size} bytes, modified {e.modified / 1e9:.3f}" for e in entries
    )
