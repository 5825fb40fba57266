"""An object store through fsspec: a real client, an emulated S3."""

import io
import os
import pickle
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.contracts import Batch, Context, Limit, Secret
from penstock.contracts.errors import (
    DataLossError,
    EphemeralReadError,
    EphemeralWriteError,
    OptionError,
    ReadError,
)
from penstock.contracts.options import parse
from penstock_remotefile.sink import RemoteFileSink
from penstock_remotefile.source import RemoteFiles
from tests.brokers.fixtures import running
from tests.brokers.objectstore import ObjectStore

s3fs = pytest.importorskip("s3fs")
pytestmark = pytest.mark.server
SCHEMA = pa.schema([pa.field("value", pa.binary())])
SECRET = "CANARY-of-the-store"


@pytest.fixture(scope="module")
def store():
    yield from running(ObjectStore())


def access(store):
    return {"key": "me", "secret": SECRET, "endpoint_url": store.address}


@pytest.fixture
def fs(store):
    return s3fs.S3FileSystem(**access(store), skip_instance_cache=True)


@pytest.fixture
def bucket(fs):
    name = f"bucket-{uuid.uuid4().hex[:8]}"
    fs.mkdir(name)
    return name


@pytest.fixture
def source(store, bucket):
    def made(path="", **more):
        return RemoteFiles(url=f"s3://{bucket}/{path}", fs=access(store), **more)

    return made


@pytest.fixture
def sink(store, bucket):
    return RemoteFileSink(url=f"s3://{bucket}/out", fs=access(store))


def read(source):
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    parts = pickle.loads(pickle.dumps(parts))
    return [r for p in parts for b in source.read(p) for r in b.to_pylist()]


def values(source):
    return [row["value"] for row in read(source)]


def batch(number=0):
    return Batch(Context(query="q", node="n"), number)


def write(sink, batch, *shares, attempt=0):
    receipts = []
    for partition, share in enumerate(shares):
        writer = sink.open(batch, partition, attempt, SCHEMA)
        writer.write(pa.record_batch([pa.array(share, pa.binary())], schema=SCHEMA))
        receipts.append(writer.close())
    return receipts


def test_objects_are_listed_by_glob_and_read(fs, bucket, source):
    for name in ("in/a.txt", "in/b.txt", "in/c.log", "in/below/d.txt", "in/_hidden.txt"):
        fs.pipe(f"{bucket}/{name}", name.encode())
    assert sorted(values(source("in/*.txt"))) == [b"in/a.txt", b"in/b.txt"]
    assert len(values(source("in"))) == 3
    assert len(values(source("in", recursive=True))) == 4
    rows = read(source("in/*.log"))
    assert rows[0]["stamp"]["origin"] == f"s3://{bucket}/in"
    assert rows[0]["stamp"]["part"] == "c.log"
    assert rows[0]["event_time"] is not None


def test_an_empty_prefix_is_no_error_and_a_missing_bucket_is(store, bucket, source):
    assert values(source("nothing/*")) == []
    with pytest.raises((ReadError, EphemeralReadError)):
        RemoteFiles(url="s3://no-such-bucket/in", fs=access(store)).check()


def test_a_large_object_is_read_in_ranges_that_lose_nothing(fs, bucket, source):
    lines = [b"%d %s" % (i, os.urandom(40).hex().encode()) for i in range(60_000)]
    fs.pipe(f"{bucket}/big", b"\n".join(lines))
    assert values(source("big", split_bytes=1 << 20, parts=1)) == lines


def test_parquet_is_read_in_place_by_row_groups(fs, bucket, source):
    out = io.BytesIO()
    pq.write_table(pa.table({"id": range(10_000)}), out, row_group_size=1000)
    fs.pipe(f"{bucket}/a.parquet", out.getvalue())
    rows = read(source("a.parquet", format="parquet", split_bytes=8 << 10))
    assert [row["id"] for row in rows] == list(range(10_000))


def test_the_members_of_a_zip_are_read(fs, bucket, source):
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("one.txt", "1\n2\n")
    fs.pipe(f"{bucket}/a.zip", out.getvalue())
    assert values(source("a.zip")) == [b"1", b"2"]


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ("keep", ["in/a"]),
        ("delete", []),
        ("archive", ["in/.archive/a"]),
        ("rename", ["in/a.done"]),
    ],
)
def test_an_object_is_taken_once_and_settled(fs, bucket, source, tmp_path, after, left):
    fs.pipe(f"{bucket}/in/a", b"1\n")
    planner = source("in", after=after).planner(Context(state=str(tmp_path)))
    end = planner.latest(planner.initial(), Limit())
    assert end["files"] == 1
    planner.durable(end)
    planner.durable(end)
    assert planner.latest(end, Limit()) == end
    planner.close()
    fs.invalidate_cache()
    assert fs.find(bucket) == [f"{bucket}/{name}" for name in left]


def test_new_content_of_the_same_size_is_a_new_version(fs, bucket, source, tmp_path):
    fs.pipe(f"{bucket}/in/a", b"1\n")
    taken = source("in", changed="reprocess")
    planner = taken.planner(Context(state=str(tmp_path)))
    first = planner.latest(planner.initial(), Limit())
    old = planner.plan(planner.initial(), first)
    fs.pipe(f"{bucket}/in/a", b"2\n")
    second = planner.latest(first, Limit())
    new = planner.plan(first, second)
    planner.close()
    rows = [r for p in new for b in taken.read(p) for r in b.to_pylist()]
    assert [(r["value"], r["stamp"]["part"]) for r in rows] == [(b"2", "a\\v2")]
    with pytest.raises(DataLossError, match="not the one that was discovered"):
        list(taken.read(old[0]))


def test_a_batch_is_written_once(fs, bucket, sink):
    assert sink.begin(batch()) is False
    receipts = write(sink, batch(), [b"a"], [b"b", b"c"])
    shown = f"{bucket}/out/part-*"
    assert fs.glob(shown) == []
    sink.finish(batch(), receipts)
    fs.invalidate_cache()
    assert [fs.cat(name) for name in sorted(fs.glob(shown))] == [b"a\n", b"b\nc\n"]
    assert sink.done(batch())
    assert sink.begin(batch()) is True
    sink.finish(batch(), write(sink, batch(), [b"again"], attempt=1))
    fs.invalidate_cache()
    assert [fs.cat(name) for name in sorted(fs.glob(shown))] == [b"a\n", b"b\nc\n"]
    assert [name for name in fs.find(f"{bucket}/out/.penstock") if "/tmp/" in name] == []


def test_a_kill_between_copy_and_removal_is_repeated_without_harm(fs, bucket, sink, monkeypatch):
    receipts = write(sink, batch(), [b"a"], [b"b"])
    temporary = receipts[0].payload["files"][0]
    with monkeypatch.context() as patched:
        patched.setattr(s3fs.S3FileSystem, "mv", _copy_and_die)
        with pytest.raises(_Killed):
            sink.finish(batch(), receipts)
    fs.invalidate_cache()
    assert fs.exists(f"{bucket}/out/{temporary['temporary']}")
    assert sink.begin(batch()) is True
    fs.invalidate_cache()
    found = sorted(fs.glob(f"{bucket}/out/part-*"))
    assert [fs.cat(name) for name in found] == [b"a\n", b"b\n"]
    assert not fs.exists(f"{bucket}/out/{temporary['temporary']}")


class _Killed(BaseException):
    pass


def _copy_and_die(self, old, new, **_):
    if old.endswith(".json") or "manifest" in old:
        self.copy(old, new)
        self.rm_file(old)
        return
    self.copy(old, new)
    raise _Killed


def test_a_store_that_is_gone_is_worth_a_retry(store, bucket):
    gone = {**access(store), "endpoint_url": "http://127.0.0.1:1"}
    gone["config_kwargs"] = '{"retries": {"max_attempts": 0}, "connect_timeout": 1}'
    with pytest.raises(EphemeralReadError, match="the store failed"):
        RemoteFiles(url=f"s3://{bucket}/in", fs=gone).check()
    sink = RemoteFileSink(url=f"s3://{bucket}/out", fs=gone)
    with pytest.raises(EphemeralWriteError, match="the store cannot write"):
        write(sink, batch(), [b"a"])


def test_what_lets_one_in_never_prints(store, bucket, source, sink):
    for each in (source("in"), sink):
        assert SECRET not in repr(each)
        assert pickle.loads(pickle.dumps(each)) == each
    given = {"url": f"s3://{bucket}/in", "fs.secret": SECRET, "fs.anon": "false"}
    parsed = parse(RemoteFiles, given)
    assert isinstance(parsed.fs["secret"], Secret)
    assert SECRET not in repr(parsed.storage())


def test_arguments_that_are_no_json_are_told(store, bucket):
    wrong = RemoteFiles(url=f"s3://{bucket}/in", fs={"config_kwargs": "{oops"})
    with pytest.raises(OptionError, match=r"fs\.config_kwargs"):
        wrong.check()


def test_an_objects_own_metadata_is_kept_if_asked(fs, bucket, source, store):
    with fs.open(f"{bucket}/in/a", "wb", Metadata={"invoice": "7"}) as file:
        file.write(b"x")
    read = source("in", format="whole", metadata=True)
    planner = read.planner(Context())
    (part,) = planner.plan(planner.initial(), planner.final())
    planner.close()
    (rows,) = read.read(part)
    sink = RemoteFileSink(
        url=f"s3://{bucket}/out", fs=access(store), format="files", keep_metadata=True
    )
    writer = sink.open(batch(), 0, 0, sink.accepts(rows.schema))
    writer.write(rows)
    sink.finish(batch(), [writer.close()])
    fs.invalidate_cache()
    assert fs.metadata(f"{bucket}/out/a") == {"invoice": "7"}
