"""A fresh, empty desk for the tests."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock_desk.client import COLUMNS

from penstock.conformance import Case, Record


@contextmanager
def fresh_place(folder: Path) -> Iterator[Case]:
    """A desk in a file of its own."""
    path = str(folder / "desk.db")

    def seed(records: Sequence[Record], split: int) -> None:
        with sqlite3.connect(path, timeout=30) as db:
            db.execute(f"create table if not exists desk ({COLUMNS})")
            for r in records:
                headers = json.dumps([[name, value.hex()] for name, value in r.headers])
                sent = round(r.event_time.timestamp() * 1_000_000)
                row = (r.id, r.key, r.value, headers, sent)
                put = "insert into desk (id, key, value, headers, time) values (?, ?, ?, ?, ?)"
                db.execute(put, row)
        db.close()

    yield Case(source={"path": path}, seed=seed, quiet=0.3)
