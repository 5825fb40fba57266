"""The durable record of every file ever discovered, in the order of discovery.

It is both the memory of what was seen and the reason why a batch can be planned again in any
process: a position is a place in this list, and the list only grows. SQLite keeps it: a look-up
costs the same with a thousand files and with millions, and a killed process leaves it whole.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from attrs import frozen

from penstock.contracts.errors import PositionError, ReadError
from penstock_localfile.engine.storage import Entry

_VERSION = "1"
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    number INTEGER PRIMARY KEY,
    path BLOB NOT NULL,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    tag TEXT NOT NULL,
    version INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS recent (
    hash INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (hash, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS older (
    hash INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (hash, number)
) WITHOUT ROWID;
"""
# Hashes fall all over an index. New ones go to a small one, so that a batch writes few pages
# however large the other has become; it takes them over many at a time.
_RECENT = 20_000


@frozen
class Logged:
    """A file in the ledger.

    Attributes:
        number: Its place, from 0 on, without gaps.
        entry: How it looked when it was discovered.
        version: 1, or more for a name that came again with other content.
    """

    number: int
    entry: Entry
    version: int = 1


class Ledger:
    """The list of discovered files of one source.

    Args:
        folder: Where it is kept; None keeps it in memory, for a read that ends.
        origin: The place the files are in; a ledger of another place is refused.
    """

    def __init__(self, folder: str | None, origin: str) -> None:
        self.durable = folder is not None
        place = ":memory:"
        if folder is not None:
            place = os.path.join(folder, "files.sqlite")
        try:
            if folder is not None:
                os.makedirs(folder, exist_ok=True)
            self._db = sqlite3.connect(
                place, isolation_level=None, check_same_thread=False, timeout=30
            )
            self._db.execute("PRAGMA synchronous=FULL")
            with self._transaction():
                for statement in filter(str.strip, _TABLES.split(";")):
                    self._db.execute(statement)
                self._settle(origin, place)
        except (sqlite3.Error, OSError) as error:
            raise _broken(error, place) from error
        self._place = place
        self.count = self._counted()
        (self._unsorted,) = self._db.execute("SELECT count(*) FROM recent").fetchone()
        self.id = self.get("id")

    def _settle(self, origin: str, place: str) -> None:
        given = {"version": _VERSION, "origin": origin, "id": uuid.uuid4().hex[:12]}
        for name, value in given.items():
            self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, value))
        for name in ("version", "origin"):
            kept = self.get(name)
            if kept != given[name]:
                raise PositionError(
                    f"the state folder belongs to another {name}",
                    expected=given[name],
                    got=f"{kept} in {place}",
                    fix="give this source a state folder and a checkpoint of its own",
                )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk has rolled it back already
                self._db.execute("ROLLBACK")
            raise

    def _counted(self) -> int:
        last = self._db.execute("SELECT max(number) FROM files").fetchone()[0]
        return 0 if last is None else last + 1

    def get(self, name: str, default: str = "") -> str:
        """A small value kept beside the list."""
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return default if row is None else row[0]

    def put(self, name: str, value: str) -> None:
        """Keep a small value, durably."""
        try:
            with self._transaction():
                self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
        except sqlite3.Error as error:
            raise _broken(error, self._place) from error

    def find(self, paths: Sequence[bytes]) -> dict[bytes, Logged]:
        """The newest version of each of these that is in the list."""
        found: dict[bytes, Logged] = {}
        for at in range(0, len(paths), 500):
            some = {path: _hash(path) for path in paths[at : at + 500]}
            marks = ",".join("?" * len(some))
            hashes = list(some.values())
            rows = self._db.execute(
                "SELECT number, path, size, modified, tag, version FROM files WHERE number IN ("
                f"SELECT number FROM recent WHERE hash IN ({marks}) UNION ALL "
                f"SELECT number FROM older WHERE hash IN ({marks})) ORDER BY number",
                hashes + hashes,
            )
            for row in rows:
                if row[1] in some:
                    found[row[1]] = _logged(row)
        return found

    def verify(self) -> None:
        """See that nobody else adds files.

        Raises:
            ReadError: another process has added some: two queries share one state folder.
        """
        if self._counted() != self.count:
            raise ReadError(
                "another query uses the same state folder",
                got=self._place,
                fix="stop one of the two, or give each a checkpoint and state of its own",
            )

    def append(self, new: Iterable[tuple[Entry, int]]) -> None:
        """Add files with their versions at the end, all or none of them, durably.

        Raises:
            ReadError: two queries share one state folder, or the disk is full.
        """
        try:
            with self._transaction():
                self.verify()
                rows = [
                    (n, e.path, e.size, e.modified, e.tag, version)
                    for n, (e, version) in enumerate(new, self.count)
                ]
                self._db.executemany("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)", rows)
                self._index(rows)
        except sqlite3.Error as error:
            raise _broken(error, self._place) from error
        self.count += len(rows)

    def _index(self, rows: list[tuple[int, bytes, int, int, str, int]]) -> None:
        hashes = sorted((_hash(row[1]), row[0]) for row in rows)
        self._db.executemany("INSERT INTO recent VALUES (?, ?)", hashes)
        self._unsorted += len(rows)
        if self._unsorted > _RECENT:
            self._db.execute("INSERT INTO older SELECT * FROM recent ORDER BY hash")
            self._db.execute("DELETE FROM recent")
            self._unsorted = 0

    def between(self, start: int, end: int) -> list[Logged]:
        """The files with start <= number < end."""
        rows = self._db.execute(
            "SELECT number, path, size, modified, tag, version FROM files "
            "WHERE number >= ? AND number < ? ORDER BY number",
            (start, end),
        )
        return [_logged(row) for row in rows]

    def from_on(self, start: int) -> Iterator[Logged]:
        """The files with start <= number, a few at a time."""
        while some := self.between(start, start + 1000):
            yield from some
            start += len(some)

    def close(self) -> None:
        """Close the database."""
        self._db.close()


def _logged(row: tuple[int, bytes, int, int, str, int]) -> Logged:
    number, path, size, modified, tag, version = row
    return Logged(number, Entry(path, size, modified, tag), version)


def _hash(path: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(path, digest_size=8).digest(), "big", signed=True)


def _broken(error: Exception, place: str) -> ReadError:
    return ReadError(
        f"the record of seen files cannot be kept: {error}",
        got=place,
        fix="see that the state folder's disk has space and can be written",
    )
