"""A desk: messages in one SQLite file, taken by processes of one machine."""

import os
import sqlite3
import uuid
from typing import Any

COLUMNS = "n integer primary key, id, key, value, headers, time, taken, times default 0"
NEXT = "select n from desk where taken is null order by n limit ?"
TAKE = f"update desk set taken = ?, times = times + 1 where n in ({NEXT}) returning *"


class Desk:
    def __init__(self, path: str) -> None:
        self._me = f"{os.getpid()}-{uuid.uuid4().hex}"
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._db.execute(f"create table if not exists desk ({COLUMNS})")

    def take(self, most: int) -> list[tuple[Any, ...]]:
        for (who,) in self._db.execute("select distinct taken from desk").fetchall():
            if who and not os.path.exists(f"/proc/{who.split('-')[0]}/exe"):  # nor has a zombie
                self._db.execute("update desk set taken = null where taken = ?", [who])
        return sorted(self._db.execute(TAKE, [self._me, most]).fetchall())

    def done(self, first: int, last: int) -> None:
        own = [self._me, first, last]
        self._db.execute("delete from desk where taken = ? and n between ? and ?", own)

    def back(self, first: int, last: int) -> None:
        own = [self._me, first, last]
        self._db.execute("update desk set taken = null where taken = ? and n between ? and ?", own)

    def waiting(self) -> int:
        return int(self._db.execute("select count(*) from desk where taken is null").fetchone()[0])

    def close(self) -> None:
        self._db.execute("update desk set taken = null where taken = ?", [self._me])
        self._db.close()
