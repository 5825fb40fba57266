"""A stand-in for Spark that keeps a checkpoint as Spark does; as a program, one that can be killed."""

import json
import sys
import time
from pathlib import Path

from pyspark.sql.streaming.datasource import ReadMaxRows

from penstock.conformance.reference.socket_source import SocketSource
from penstock.contracts import ENVELOPE, Context
from penstock.contracts.delivery import QueueOptions
from penstock.spark.queues import stream_reader


class Plain:
    schema = ENVELOPE

    def apply(self, rows):
        return rows


class Query:
    """What Spark does to a stream reader, call by call, with the log entries in between."""

    def __init__(self, source, folder, **options):
        self.checkpoint = folder / "checkpoint"
        options.setdefault("checkpoint", str(self.checkpoint))
        self.options = QueueOptions(**options)
        self.source = source
        for name in ("offsets", "commits"):
            (self.checkpoint / name).mkdir(parents=True, exist_ok=True)
        self.begin()

    def begin(self):
        """A new reader process, as after a restart."""
        self.reader = stream_reader(self.source, self.options, Context(node="in"), Plain())
        logged = sorted(int(p.name) for p in (self.checkpoint / "offsets").iterdir())
        self.batch = logged[-1] if logged else -1
        self.at = self.logged(self.batch) if logged else self.reader.initialOffset()
        return self

    def logged(self, batch):
        if batch < 0:
            return self.reader.initialOffset()
        return json.loads((self.checkpoint / "offsets" / str(batch)).read_text().split("\n")[2])

    def plan(self):
        """Ask for the next batch and log it; False if there is nothing new."""
        end = self.reader.latestOffset(self.at, ReadMaxRows(self.options.max_rows))
        if end == self.at:
            return False
        self.batch += 1
        entry = self.checkpoint / "offsets" / str(self.batch)
        entry.write_text(f"v1\n{{}}\n{json.dumps(end)}")
        self.start, self.at = self.at, end
        return True

    def rows(self):
        """Run the planned batch: the ids it holds."""
        parts = self.reader.partitions(self.start, self.at)
        batches = [rows for part in parts for rows in self.reader.read(part)]
        return [name for rows in batches for name in rows.column("id").to_pylist()]

    def commit(self):
        (self.checkpoint / "commits" / str(self.batch)).write_text("v1\n{}")

    def stop(self):
        self.reader.stop()


def main(folder: Path, port: int, given: str) -> None:
    """Batches into files, as a sink that does each number once; until the file `end` is there."""
    query = Query(SocketSource(port=port), folder, **json.loads(given))
    if query.batch >= 0 and not (query.checkpoint / "commits" / str(query.batch)).exists():
        query.start = query.logged(query.batch - 1)
        write(folder, query)
    while not (folder / "end").exists():
        if query.plan():
            write(folder, query)
        else:
            time.sleep(0.01)
    query.stop()


def write(folder: Path, query: Query) -> None:
    rows = query.rows()
    done = folder / "sink" / str(query.batch)
    if not done.exists():
        draft = done.with_suffix(".draft")
        draft.write_text(json.dumps(rows))
        draft.rename(done)
    query.commit()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
