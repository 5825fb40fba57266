"""A small message broker on a local socket: one queue, acknowledgements, redelivery, a password.

Run it with `python -m penstock.conformance.reference.broker FOLDER`; it prints its port. Requests
and replies are JSON, one line each. Messages are kept in SQLite, so that a killed broker comes
back with what was not acknowledged.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socketserver
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

_TABLES = """
pragma journal_mode = wal;
pragma synchronous = off;
create table if not exists messages (seq integer primary key autoincrement, body text,
                                     deliveries integer not null default 0);
create table if not exists seen (id text primary key);
"""


class Store:
    """The queue itself; every method holds its lock."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(folder / "queue.db", check_same_thread=False)
        self._db.executescript(_TABLES)
        self._leased: dict[int, object] = {}
        self._changed = threading.Condition()

    def send(self, messages: list[dict[str, Any]]) -> int:
        """Append; a message whose `dedupe` is known already is left out."""
        with self._changed, self._db:
            taken = 0
            for message in messages:
                once = message.pop("dedupe", None)
                if once is not None:
                    found = self._db.execute("insert or ignore into seen values (?)", [once])
                    if found.rowcount == 0:
                        continue
                self._db.execute("insert into messages (body) values (?)", [json.dumps(message)])
                taken += 1
            self._changed.notify_all()
            return taken

    def receive(
        self, owner: object, limit: int, room: int | None, wait: float
    ) -> list[dict[str, Any]]:
        """Lease up to `limit` messages and about `room` bytes, waiting for the first."""
        with self._changed, self._db:
            if not self._changed.wait_for(lambda: self._waiting(1), timeout=wait):
                return []
            out: list[dict[str, Any]] = []
            for seq, body, deliveries in self._waiting(limit):
                if room is not None and out and room < len(body):
                    break
                room = None if room is None else room - len(body)
                self._leased[seq] = owner
                self._db.execute(
                    "update messages set deliveries = deliveries + 1 where seq = ?", [seq]
                )
                out.append({**json.loads(body), "tag": seq, "deliveries": deliveries + 1})
            return out

    def acknowledge(self, owner: object, tag: int) -> int:
        """Forget what this connection has leased, up to `tag`."""
        with self._changed, self._db:
            tags = [seq for seq, by in self._leased.items() if by is owner and seq <= tag]
            self._db.executemany("delete from messages where seq = ?", [[seq] for seq in tags])
            for seq in tags:
                del self._leased[seq]
            return len(tags)

    def release(self, owner: object, tags: list[int] | None = None) -> int:
        """Put back what this connection has leased: these, or all of it."""
        with self._changed:
            mine = [s for s, by in self._leased.items() if by is owner]
            back = [seq for seq in mine if tags is None or seq in tags]
            for seq in back:
                del self._leased[seq]
            self._changed.notify_all()
            return len(back)

    def depth(self) -> int:
        with self._changed:
            count: int = self._db.execute("select count(*) from messages").fetchone()[0]
            return count - len(self._leased)

    def _waiting(self, limit: int) -> list[tuple[int, str, int]]:
        rows = self._db.execute("select seq, body, deliveries from messages order by seq")
        found: list[tuple[int, str, int]] = []
        for row in rows:
            if row[0] not in self._leased:
                found.append(row)
                if len(found) == limit:
                    break
        rows.close()
        return found


class Session(socketserver.StreamRequestHandler):
    """One connection; what it has not acknowledged goes back when it ends."""

    server: Broker

    def handle(self) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                for line in self.rfile:
                    reply = self._answer(json.loads(line))
                    self.wfile.write(json.dumps(reply).encode() + b"\n")
        finally:
            self.server.store.release(self)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        store, wanted = self.server.store, request["op"]
        if request.get("password") != self.server.password:
            return {"error": "refused", "why": "the password is wrong"}
        if wanted == "send":
            return {"count": store.send(request["messages"])}
        if wanted == "receive":
            asked = (request["limit"], request.get("room"), request["wait"])
            return {"messages": store.receive(self, *asked)}
        if wanted == "acknowledge":
            return {"count": store.acknowledge(self, request["tag"])}
        if wanted == "release":
            return {"count": store.release(self, request["tags"])}
        if wanted == "depth":
            return {"count": store.depth()}
        return {"error": "unknown", "why": f"there is no operation {wanted}"}


class Broker(socketserver.ThreadingTCPServer):
    """The server: a thread per connection over one store."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, folder: Path, port: int, password: str | None) -> None:
        self.store = Store(folder)
        self.password = password
        super().__init__(("127.0.0.1", port), Session)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--password")
    given = parser.parse_args(arguments)
    with Broker(given.folder, given.port, given.password) as broker:
        sys.stdout.write(f"{broker.server_address[1]}\n")
        sys.stdout.flush()
        broker.serve_forever()


if __name__ == "__main__":
    main()
