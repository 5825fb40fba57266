"""A disk that is full and a folder that may not be entered, for real: loud, and nothing is lost."""

import contextlib
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.contracts import Batch, Context, Limit
from penstock.contracts.errors import ReadError, WriteError
from penstock_localfile.sink import LocalFileSink
from penstock_localfile.source import LocalFiles

SCHEMA = pa.schema([pa.field("value", pa.binary())])
NOBODY = 65534


@contextlib.contextmanager
def ordinary_user():
    """Root may do everything: for a while, be somebody who may not."""
    if os.geteuid():
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def own():
    """A folder of the ordinary user's, whatever the folders of this run are open to."""
    with tempfile.TemporaryDirectory(prefix="penstock-own-") as place:
        os.chmod(place, 0o755)
        if os.geteuid() == 0:
            os.chown(place, NOBODY, NOBODY)
        yield Path(place)


def rows(*values):
    return pa.record_batch([pa.array(values, pa.binary())], schema=SCHEMA)


def batch(number=0):
    return Batch(Context(query="q", node="n"), number)


def written(sink, batch, *values):
    writer = sink.open(batch, 0, 0, SCHEMA)
    try:
        for value in values:
            writer.write(rows(value))
        return [writer.close()]
    except BaseException:
        writer.abort()
        raise


def files(place):
    return sorted(p for p in place.rglob("*") if p.is_file())


def test_a_full_disk_stops_a_batch_and_room_lets_it_go_on(disk):
    out = disk.path / "out"
    sink = LocalFileSink(path=str(out))
    sink.finish(batch(0), written(sink, batch(0), b"first"))
    before = files(out)
    large = [os.urandom(100_000).hex().encode() for _ in range(10)]
    with pytest.raises(WriteError, match="No space left") as caught:
        written(sink, batch(1), *large)
    assert "free space" in str(caught.value)
    assert files(out) == before
    assert sink.begin(batch(1)) is False
    sink.finish(batch(1), written(sink, batch(1), *large[:2]))
    found = [line for p in sorted(out.glob("*.txt")) for line in p.read_bytes().splitlines()]
    assert found == [b"first", *large[:2]]


def test_a_disk_that_is_full_when_a_batch_is_decided_publishes_nothing(disk):
    out = disk.path / "out"
    sink = LocalFileSink(path=str(out))
    receipts = written(sink, batch(), b"a")
    disk.fill()
    with pytest.raises(WriteError, match="No space left"):
        sink.finish(batch(), receipts)
    sink.discard(batch(), receipts)
    assert list(out.glob("*.txt")) == []
    disk.relieve()
    assert sink.begin(batch()) is False
    sink.finish(batch(), written(sink, batch(), b"a"))
    assert [p.read_bytes() for p in out.glob("*.txt")] == [b"a\n"]


def test_a_full_disk_below_the_state_plans_nothing_and_forgets_nothing(disk, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a").write_bytes(b"1\n")
    source = LocalFiles(path=str(folder))
    planner = source.planner(Context(state=str(disk.path / "state")))
    first = planner.latest(planner.initial(), Limit())
    for number in range(200):
        (folder / f"{number:0200d}").write_bytes(b"2\n")
    disk.fill()
    with pytest.raises(ReadError, match="full"):
        planner.latest(first, Limit())
    disk.relieve()
    end = planner.latest(first, Limit())
    parts = planner.plan(planner.initial(), end)
    planner.close()
    found = [v for p in parts for b in source.read(p) for v in b["value"].to_pylist()]
    assert found == [b"1", *[b"2"] * 200]


def test_a_folder_that_refuses_half_way_is_finished_when_it_no_longer_does(own):
    closed = own / "k=2"
    columns = pa.schema([("k", pa.int64()), ("value", pa.binary())])
    sink = LocalFileSink(path=str(own), partition_by=["k"])
    with ordinary_user():
        writer = sink.open(batch(), 0, 0, columns)
        writer.write(pa.record_batch([[1, 2, 3], [b"a", b"b", b"c"]], schema=columns))
        receipts = [writer.close()]
        closed.mkdir(mode=0o555)
        with pytest.raises(WriteError, match="Permission denied") as caught:
            sink.finish(batch(), receipts)
        assert "let the user who runs Spark write there" in str(caught.value)
        sink.discard(batch(), receipts)
        assert not sink.done(batch())
        closed.chmod(0o755)
        assert sink.begin(batch()) is True
    found = {p.parent.name: p.read_bytes() for p in own.rglob("*.txt")}
    assert found == {"k=1": b"a\n", "k=2": b"b\n", "k=3": b"c\n"}


def test_a_file_that_may_not_be_read_is_named_and_read_when_it_may(own):
    source = LocalFiles(path=str(own), order="name", parts=1)
    with ordinary_user():
        for name in "abc":
            (own / name).write_bytes(name.encode())
        (own / "b").chmod(0)
        planner = source.planner(Context())
        parts = planner.plan(planner.initial(), planner.final())
        planner.close()
        with pytest.raises(ReadError, match="Permission denied") as caught:
            list(source.read(parts[0]))
        assert "got: b" in str(caught.value)
        (own / "b").chmod(0o644)
        found = [v for p in parts for b in source.read(p) for v in b["value"].to_pylist()]
    assert found == [b"a", b"b", b"c"]


def test_a_folder_that_may_not_be_listed_is_named(own):
    with ordinary_user():
        (own / "below").mkdir(mode=0)
        planner = LocalFiles(path=str(own), recursive=True).planner(Context())
        with pytest.raises(ReadError, match="cannot be listed: Permission denied"):
            planner.final()
        planner.close()
        (own / "below").chmod(0o755)


def test_an_archive_that_refuses_is_filled_when_it_no_longer_does(own):
    state = own / "state"
    with ordinary_user():
        folder = own / "in"
        folder.mkdir()
        for name in "ab":
            (folder / name).write_bytes(b"x\n")
        (folder / ".archive").mkdir(mode=0o555)
        source = LocalFiles(path=str(folder), after="archive")
        planner = source.planner(Context(state=str(state)))
        end = planner.latest(planner.initial(), Limit())
        with pytest.raises(WriteError, match="Permission denied"):
            planner.durable(end)
        planner.close()
        assert len(list(folder.glob("[ab]"))) == 2
        (folder / ".archive").chmod(0o755)
        planner = source.planner(Context(state=str(state)))
        planner.close()
        assert sorted(p.name for p in (folder / ".archive").iterdir()) == ["a", "b"]
        assert list(folder.glob("[ab]")) == []
