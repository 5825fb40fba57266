import errno
import json
import os
import pickle
import resource

import pyarrow as pa
import pytest
from attrs import evolve

from penstock.contracts import Batch, Context, Receipt
from penstock.contracts.errors import OptionError, SchemaError, WriteError
from penstock_localfile.engine import publishing
from penstock_localfile.sink import LocalFileSink

SCHEMA = pa.schema([pa.field("value", pa.binary())])


def rows(*values):
    return pa.record_batch([pa.array(values, pa.binary())], schema=SCHEMA)


def batch(number=0, query="q1", node="out", overwrite=False):
    return Batch(Context(query=query, node=node), number, overwrite=overwrite)


def write(sink, which, *shares, attempt=0):
    """One attempt at a batch, as the core makes it; the receipts."""
    receipts = []
    for partition, values in enumerate(shares):
        writer = pickle.loads(pickle.dumps(sink)).open(which, partition, attempt, SCHEMA)
        writer.write(rows(*values))
        receipts.append(evolve(writer.close(), partition=partition))
    return receipts


def visible(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and ".penstock" not in p.parts)


def lines(folder):
    return sorted(line for p in visible(folder) for line in p.read_bytes().splitlines())


def leftovers(folder):
    return [p for p in (folder / ".penstock").rglob("tmp/*/*") if p.is_file()]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def sink(out):
    return LocalFileSink(path=str(out))


def test_nothing_is_visible_before_finish_and_all_after(sink, out):
    assert sink.begin(batch()) is False
    receipts = write(sink, batch(), [b"a", b"b"], [b"c"])
    assert visible(out) == []
    sink.finish(batch(), receipts)
    assert lines(out) == [b"a", b"b", b"c"]
    assert leftovers(out) == []
    assert [r.rows for r in receipts] == [2, 1]


def test_a_replayed_batch_changes_nothing(sink, out):
    sink.finish(batch(), write(sink, batch(), [b"a"]))
    before = [(p, p.stat().st_mtime_ns) for p in visible(out)]
    assert sink.done(batch())
    assert sink.begin(batch()) is True
    sink.finish(batch(), write(sink, batch(), [b"other"], attempt=1))
    assert [(p, p.stat().st_mtime_ns) for p in visible(out)] == before
    assert leftovers(out) == []


class Killed(BaseException):
    pass


@pytest.mark.parametrize("point", ["manifest-written", "file-published"])
@pytest.mark.parametrize("by_begin", [True, False], ids=["begun again", "plain stream"])
def test_a_decided_batch_is_finished_by_whoever_comes_next(sink, out, monkeypatch, point, by_begin):
    def die(name, **facts):
        if name == point:
            raise Killed

    receipts = write(sink, batch(), [b"a"], [b"b"], [b"c"])
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "reached", die)
        with pytest.raises(Killed):
            sink.finish(batch(), receipts)
    assert not sink.done(batch())
    if by_begin:
        assert sink.begin(batch()) is True
    else:
        sink.finish(batch(), write(sink, batch(), [b"x"], [b"y"], attempt=1))
    assert lines(out) == [b"a", b"b", b"c"]
    assert leftovers(out) == []
    assert sink.done(batch())


def test_a_batch_that_was_never_decided_is_swept_and_written_anew(sink, out):
    write(sink, batch(), [b"dead"])
    assert leftovers(out) != []
    assert sink.begin(batch()) is False
    assert leftovers(out) == []
    sink.finish(batch(), write(sink, batch(), [b"alive"]))
    assert lines(out) == [b"alive"]


def test_overlapping_attempts_do_no_harm(sink, out):
    slow = sink.open(batch(), 0, 0, SCHEMA)
    slow.write(rows(b"a"))
    receipts = write(sink, batch(), [b"a"], attempt=1)
    slow.close()
    sink.finish(batch(), receipts)
    assert lines(out) == [b"a"]
    assert leftovers(out) == []


def test_an_aborted_task_leaves_nothing(sink, out):
    writer = sink.open(batch(), 0, 0, SCHEMA)
    writer.write(rows(b"a"))
    writer.abort()
    assert visible(out) == []
    assert leftovers(out) == []


def test_a_discarded_batch_leaves_nothing(sink, out):
    receipts = write(sink, batch(), [b"a"], [b"b"])
    sink.discard(batch(), receipts)
    assert visible(out) == []
    assert leftovers(out) == []


def test_a_decided_batch_cannot_be_discarded(sink, out, monkeypatch):
    receipts = write(sink, batch(), [b"a"])

    def fail(name, **facts):
        if name == "manifest-written":
            raise WriteError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "reached", fail)
        with pytest.raises(WriteError, match="broken"):
            sink.finish(batch(), receipts)
    sink.discard(batch(), receipts)
    assert sink.begin(batch()) is True
    assert lines(out) == [b"a"]


def test_batches_queries_and_nodes_keep_apart(sink, out):
    for which in (batch(0), batch(1), batch(0, query="q2"), batch(0, node="other")):
        assert sink.begin(which) is False
        sink.finish(which, write(sink, which, [b"x"]))
    assert lines(out) == [b"x"] * 4


def test_a_task_without_rows_leaves_no_file(sink, out):
    writer = sink.open(batch(), 0, 0, SCHEMA)
    sink.finish(batch(), [writer.close()])
    assert visible(out) == []
    assert sink.done(batch())


def test_a_receipt_of_a_skipped_task_is_borne(sink, out):
    sink.finish(batch(), [Receipt(rows=0), *write(sink, batch(), [b"a"])])
    assert lines(out) == [b"a"]


def test_overwrite_replaces_what_is_there(sink, out):
    sink.finish(batch(), write(sink, batch(), [b"old"]))
    (out / "deep").mkdir()
    (out / "deep" / "foreign").write_bytes(b"old too\n")
    which = batch(0, query="q2", overwrite=True)
    sink.begin(which)
    sink.finish(which, write(sink, which, [b"new"]))
    assert lines(out) == [b"new"]


def test_the_manifest_names_the_files_of_a_batch(sink, out):
    sink.finish(batch(3), write(sink, batch(3), [b"a", b"b"]))
    (kept,) = (out / ".penstock").glob("*/*.done")
    told = json.loads(kept.read_text())
    assert [(f["final"], f["rows"]) for f in told["files"]] == [(visible(out)[0].name, 2)]


def test_old_manifests_give_way_to_one_number(sink, out, monkeypatch):
    monkeypatch.setattr(publishing, "_KEPT", 4)
    for number in range(9):
        sink.finish(batch(number), write(sink, batch(number), [b"%d" % number]))
    assert len(list((out / ".penstock").glob("*/*.done"))) == 4
    assert all(sink.done(batch(number)) for number in range(9))
    assert not sink.done(batch(9))


def test_leftovers_of_a_dead_query_go_when_they_are_old(sink, out):
    write(sink, batch(5, query="dead"), [b"x"])
    (left,) = leftovers(out)
    sink.begin(batch(0, query="alive"))
    assert left.exists()
    os.utime(left, (1, 1))
    sink.begin(batch(0, query="alive"))
    assert not left.exists()


def test_a_full_disk_is_told_and_leaves_nothing(sink, out, monkeypatch):
    writer = sink.open(batch(), 0, 0, SCHEMA)
    writer.write(rows(b"a"))

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="No space left") as caught:
        writer.close()
    assert "free space" in str(caught.value)
    writer.abort()
    assert visible(out) == []
    assert leftovers(out) == []


def test_values_that_cannot_be_lines_are_refused_one_by_one(sink, out):
    writer = sink.open(batch(), 0, 0, SCHEMA)
    writer.write(rows(b"good", b"two\nlines", None, b""))
    receipt = writer.close()
    assert receipt.rows == 2
    assert receipt.rejected[0].errors == ["the value holds a newline", "null cannot be a line"]
    assert receipt.rejected[0].rows.column(0).to_pylist() == [b"two\nlines", None]
    sink.finish(batch(), [receipt])
    assert lines(out) == [b"", b"good"]


def test_lines_take_a_value_column_or_a_single_one(sink):
    assert sink.accepts(pa.schema([("value", pa.string()), ("id", pa.int64())])) == SCHEMA
    assert sink.accepts(pa.schema([("line", pa.string())])).names == ["line"]
    with pytest.raises(SchemaError, match="one column"):
        sink.accepts(pa.schema([("a", pa.string()), ("b", pa.string())]))
    with pytest.raises(SchemaError, match="one column"):
        sink.accepts(pa.schema([("a", pa.int64())]))


def test_a_folder_that_may_not_be_made_fails_the_check(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(WriteError, match="cannot be written"):
        LocalFileSink(path=str(blocked / "below")).check()


def test_a_glob_is_no_target():
    with pytest.raises(OptionError, match="glob"):
        LocalFileSink(path="/data/*")


def test_a_batch_without_a_query_id_is_refused(sink):
    with pytest.raises(WriteError, match="query id"):
        sink.begin(batch(query=""))


def test_a_write_that_fails_half_way_leaves_nothing(sink, out):
    """The system itself refuses further bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = sink.open(batch(), 0, 0, SCHEMA)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(WriteError, match="cannot be written"):
            overfill(writer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    writer.abort()
    assert visible(out) == []
    assert leftovers(out) == []


def overfill(writer):
    for _ in range(10):
        writer.write(rows(b"x" * 50_000))
    writer.close()


def test_a_decided_batch_that_cannot_be_named_yet_is_finished_later(out):
    sink = LocalFileSink(path=str(out), file_name="day/{batch}-{partition}")
    receipts = write(sink, batch(), [b"a"], [b"b"])
    (out / "day").write_bytes(b"in the way")
    with pytest.raises(WriteError, match="cannot be written"):
        sink.finish(batch(), receipts)
    sink.discard(batch(), receipts)
    assert not sink.done(batch())
    (out / "day").unlink()
    assert sink.begin(batch()) is True
    assert lines(out) == [b"a", b"b"]
