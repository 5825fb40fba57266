import uuid

import pyarrow as pa
import pytest

from penstock.contracts import Batch, Context, Limit
from penstock.contracts.envelope import ENVELOPE
from penstock.contracts.errors import OptionError, ReadError
from penstock_remotefile.fs import FsspecStorage
from penstock_remotefile.sink import RemoteFileSink
from penstock_remotefile.source import RemoteFiles

fsspec = pytest.importorskip("fsspec")
SCHEMA = pa.schema([pa.field("value", pa.binary())])


@pytest.fixture
def place():
    return f"memory://{uuid.uuid4().hex}"


def put(place, name, data):
    fs, root = fsspec.core.url_to_fs(place)
    fs.makedirs(root, exist_ok=True)
    fs.pipe(f"{root}/{name}", data)


def test_a_name_that_is_no_text_refuses_its_row_alone(place):
    sink = RemoteFileSink(url=f"{place}/out", format="files")
    schema = sink.accepts(ENVELOPE)
    rows = [{"key": k, "value": b"x"} for k in (b"\xff", b"a", b"a/b")]
    batch = Batch(Context(query="q", node="n"), 0)
    writer = sink.open(batch, 0, 0, schema)
    writer.write(pa.RecordBatch.from_pylist(rows, schema=schema))
    receipt = writer.close()
    sink.finish(batch, [receipt])
    assert [r.rows["key"][0].as_py() for r in receipt.rejected] == [b"\xff"]
    fs, root = fsspec.core.url_to_fs(place)
    assert fs.cat(f"{root}/out/a/b") == b"x"


class Keys:
    """A bucket that holds keys which are no paths."""

    protocol = "s3"

    def invalidate_cache(self):
        pass

    def find(self, top, **_):
        return {f"{top}/{key}": {"size": 1} for key in ("a", "/a", "b//c", "x/../a", "d/e")}


def test_an_object_without_a_name_of_a_file_is_left_out_with_a_warning(monkeypatch, caplog):
    monkeypatch.setattr(FsspecStorage, "_fs", lambda self: (Keys(), "bucket/in"))
    found = [entry.path for entry in FsspecStorage("s3://bucket/in").walk()]
    assert found == [b"a", b"d/e"]
    assert [record.args for record in caplog.records] == [("/a",), ("b//c",), ("x/../a",)]


def test_times_cannot_be_kept_in_a_store(place):
    with pytest.raises(OptionError, match="keep their own times"):
        RemoteFileSink(url=f"{place}/out", format="files", keep_times=True)


def test_an_archive_in_a_store_is_a_prefix_or_a_whole_url(place, tmp_path):
    with pytest.raises(OptionError, match="no absolute folders"):
        RemoteFiles(url=f"{place}/in", after="archive", archive="/done")
    put(place, "in/a", b"1\n")
    wanted = {"recursive": True, "after": "archive", "archive": f"{place}/in/done"}
    planner = RemoteFiles(url=f"{place}/in", **wanted).planner(Context(state=str(tmp_path)))
    end = planner.latest(planner.initial(), Limit())
    planner.durable(end)
    assert planner.latest(end, Limit()) == end
    planner.close()


def test_objects_are_read_and_written_once(place, tmp_path):
    put(place, "in/a", b"1\n2\n")
    source = RemoteFiles(url=f"{place}/in/*", after="archive")
    sink = RemoteFileSink(url=f"{place}/out")
    planner = source.planner(Context(state=str(tmp_path)))
    end = planner.latest(planner.initial(), Limit())
    batch = Batch(Context(query="q", node="n"), 0)
    assert sink.begin(batch) is False
    receipts = []
    for number, part in enumerate(planner.plan(planner.initial(), end)):
        writer = sink.open(batch, number, 0, SCHEMA)
        for rows in source.read(part):
            writer.write(rows.select(["value"]))
        receipts.append(writer.close())
    sink.finish(batch, receipts)
    planner.durable(end)
    assert planner.latest(end, Limit()) == end
    planner.close()
    assert sink.begin(batch) is True
    back = RemoteFiles(url=f"{place}/out")
    planner = back.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    assert [v for p in parts for b in back.read(p) for v in b["value"].to_pylist()] == [b"1", b"2"]
    fs, root = fsspec.core.url_to_fs(place)
    assert fs.exists(f"{root}/in/.archive/a")
    assert not fs.exists(f"{root}/in/a")


def test_a_missing_file_filesystem_folder_is_named(tmp_path):
    with pytest.raises(ReadError, match="missing"):
        RemoteFiles(url=f"file://{tmp_path}/nothing").check()


@pytest.mark.parametrize(("rows", "files"), [(4, 1), (8, 2), (100, 10)])
def test_small_files_share_a_batch_though_nobody_counts_their_lines(place, tmp_path, rows, files):
    for number in range(10):
        put(place, f"in/{number}", b"1\n2\n")
    planner = RemoteFiles(url=f"{place}/in/*").planner(Context(state=str(tmp_path)))
    end = planner.latest(planner.initial(), Limit(rows=rows))
    planner.close()
    assert end["files"] == files
