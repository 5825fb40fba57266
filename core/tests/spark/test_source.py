"""The stream reader as its process calls it, without a query."""

from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.contracts import Context, Limit, Planner, Position, ReplayableSource, connector
from penstock.contracts.delivery import ReadOptions
from penstock.spark import source as module
from penstock.spark.commitlog import Watcher
from penstock.spark.source import StreamReader

ROWS = pa.schema([pa.field("n", pa.int64())])


class Counting(Planner):
    """Ten rows more at each look; remembers what it was told and when."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def initial(self) -> Position:
        return {"n": 0}

    def final(self) -> Position:
        return {"n": 10}

    def latest(self, after: Position, limit: Limit, until: Position | None = None) -> Position:
        self.calls.append(("latest", after["n"]))
        return {"n": after["n"] + 10}

    def plan(self, start: Position, end: Position) -> list:
        return []

    def durable(self, end: Position) -> None:
        self.calls.append(("durable", end["n"]))


@connector
class CountingSource(ReplayableSource):
    """Counts."""

    def schema(self) -> pa.Schema:
        return ROWS

    def planner(self, ctx: Context) -> Planner:
        return Counting()

    def read(self, part):
        return iter(())


@pytest.fixture
def reader(tmp_path, monkeypatch):
    # Its thread never looks within the test: what is told is told by the reader itself.
    monkeypatch.setattr(module, "Watcher", partial(Watcher, every=3600))
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    options = ReadOptions(checkpoint=str(tmp_path))
    made = StreamReader("counting", CountingSource(), Context(node="c"), None, options)
    yield made
    made.stop()


def test_a_committed_batch_is_told_before_the_next_is_planned(reader, tmp_path):
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    line = '{"node": "c", "at": "{\\"n\\": 10}"}'
    (tmp_path / "offsets" / "0").write_text(f"v1\n{{}}\n{line}")
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    reader.latestOffset(end, ReadAllAvailable())
    assert reader._planner.calls == [("latest", 0), ("durable", 10), ("latest", 10)]
