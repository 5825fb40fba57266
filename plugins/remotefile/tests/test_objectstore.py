"""An object store through fsspec: a real client, an emulated S3."""

import io
import os
import pickle
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock_remotefile.fs
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


def test_a_key_is_written_in_a_url_as_it_is(fs, bucket, source):
    for name in ("in/a%20b", "in/a b", "in/x#1"):
        fs.pipe(f"{bucket}/{name}", name.encode())
    assert values(source("in/a%20b")) == values(source("in/a%*")) == [b"in/a%20b"]
    assert values(source("in/x#1")) == [b"in/x#1"]


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
    temporary = f"{bucket}/out/{receipts[0].payload['files'][0]['temporary']}"
    with monkeypatch.context() as patched:
        patched.setattr(penstock_remotefile.fs, "reached", _dies_at("/part-"))
        with pytest.raises(_Killed):
            sink.finish(batch(), receipts)
    before = objects(fs, f"{bucket}/out/part-")
    assert [fs.cat(name) for name in before] == [b"a\n"]
    assert temporary in objects(fs, f"{bucket}/out/")
    assert sink.begin(batch()) is True
    after = objects(fs, f"{bucket}/out/part-")
    assert [fs.cat(name) for name in after] == [b"a\n", b"b\n"]
    assert temporary not in objects(fs, f"{bucket}/out/")
    # A reader that has it already must not take it for a new version.
    assert before.items() <= after.items()


@pytest.mark.parametrize("after", ["archive", "rename"])
def test_a_kill_between_copy_and_removal_settles_a_file_once(
    fs, bucket, source, tmp_path, monkeypatch, after
):
    fs.pipe(f"{bucket}/in/a", b"1\n")
    settling = source("in", after=after)
    planner = settling.planner(Context(state=str(tmp_path)))
    end = planner.latest(planner.initial(), Limit())
    with monkeypatch.context() as patched:
        patched.setattr(penstock_remotefile.fs, "reached", _dies_at("/in/"))
        with pytest.raises(_Killed):
            planner.durable(end)
    planner.close()
    assert len(objects(fs, bucket)) == 2
    settling.planner(Context(state=str(tmp_path))).close()
    left = {"archive": "in/.archive/a", "rename": "in/a.done"}[after]
    assert list(objects(fs, bucket)) == [f"{bucket}/{left}"]


def test_other_content_under_an_archived_name_is_kept_beside_it(fs, bucket, source, tmp_path):
    planner = source("in", after="archive", changed="reprocess").planner(
        Context(state=str(tmp_path))
    )
    end = planner.initial()
    for content in (b"1\n", b"2\n"):
        fs.pipe(f"{bucket}/in/a", content)
        end = planner.latest(end, Limit())
        planner.durable(end)
    planner.close()
    kept = objects(fs, bucket)
    assert [fs.cat(name) for name in kept] == [b"1\n", b"2\n"]


@pytest.mark.parametrize("after", ["delete", "archive", "rename"])
def test_a_name_that_looks_like_a_glob_is_one_name(fs, bucket, source, tmp_path, after):
    names = ["a", "[ab]", "*", "b", "?"]
    for name in names:
        fs.pipe(f"{bucket}/in/{name}", name.encode())
    planner = source("in", after=after, order="name").planner(Context(state=str(tmp_path)))
    end = planner.latest(planner.initial(), Limit(files=1))
    planner.durable(end)
    planner.close()
    left = {"archive": ["in/.archive/*"], "rename": ["in/*.done"], "delete": []}[after]
    expected = [f"in/{name}" for name in names if name != "*"] + left
    assert sorted(objects(fs, bucket)) == sorted(f"{bucket}/{name}" for name in expected)


def test_an_object_may_have_the_name_of_a_prefix(fs, bucket, store):
    sink = RemoteFileSink(url=f"s3://{bucket}/out", fs=access(store), format="files")
    schema = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])
    for number, key in enumerate([b"a/b", b"a"]):
        writer = sink.open(batch(number), 0, 0, schema)
        writer.write(pa.record_batch([pa.array([key]), pa.array([key])], schema=schema))
        sink.finish(batch(number), [writer.close()])
    made = {k: fs.cat(k) for k in objects(fs, f"{bucket}/out/") if ".penstock" not in k}
    assert made == {f"{bucket}/out/a": b"a", f"{bucket}/out/a/b": b"a/b"}


class _Killed(BaseException):
    pass


def _dies_at(name):
    def reached(point, file):
        if point == "file-copied" and name in file:
            raise _Killed

    return reached


def objects(fs, prefix):
    """Every object whose name begins so, with its time."""
    fs.invalidate_cache()
    bucket = prefix.partition("/")[0]
    found = fs.find(bucket, detail=True).items()
    return {name: facts["LastModified"] for name, facts in found if name.startswith(prefix)}


def test_a_store_that_is_gone_is_worth_a_retry(store, bucket):
    gone = {**access(store), "endpoint_url": "http://127.0.0.1:1"}
    gone["config_kwargs"] = '{"retries": {"max_attempts": 0}, "connect_timeout": 1}'
    with pytest.raises(EphemeralReadError, match="the store failed"):
        RemoteFiles(url=f"s3://{bucket}/in", fs=gone).check()
    sink = RemoteFileSink(url=f"s3://{bucket}/out", fs=gone)
    with pytest.raises(EphemeralWriteError, match="the store cannot write"):
        write(sink, batch(), [b"a"])


@pytest.fixture
def fresh_store():
    yield from running(ObjectStore())


IMPATIENT = '{"retries": {"max_attempts": 0}, "connect_timeout": 1, "read_timeout": 1}'


@pytest.fixture
def under_way(fresh_store):
    """An object, read from its beginning on, of which much is still to come."""
    data = os.urandom(1 << 20) * 60  # the client reads 50 of them ahead
    s3fs.S3FileSystem(**access(fresh_store), skip_instance_cache=True).mkdir("bucket")
    impatient = {**access(fresh_store), "config_kwargs": IMPATIENT}
    storage, _ = RemoteFiles(url="s3://bucket/in", fs=impatient).storage()
    out = storage.create(b"big")
    out.write(data)
    out.close()
    file = storage.open(b"big")
    assert file.read(1 << 20) == data[: 1 << 20]
    return storage, file, data


def rest(file):
    return b"".join(iter(lambda: file.read(1 << 20), b""))


def test_a_store_killed_during_a_transfer_never_gives_a_short_file(fresh_store, under_way):
    _, file, _ = under_way
    fresh_store.kill()
    with pytest.raises(EphemeralReadError, match="the store failed"):
        rest(file)


@pytest.mark.slow
def test_a_store_frozen_during_a_transfer_is_given_up_and_found_again(fresh_store, under_way):
    storage, file, data = under_way
    fresh_store.freeze()
    try:
        with pytest.raises(EphemeralReadError, match="the store failed"):
            rest(file)
    finally:
        fresh_store.thaw()
    assert rest(storage.open(b"big", 5)) == data[5:]


def test_a_store_killed_during_an_upload_is_told_and_takes_it_again(fresh_store):
    made = s3fs.S3FileSystem(**access(fresh_store), skip_instance_cache=True)
    made.mkdir("bucket")
    impatient = {**access(fresh_store), "config_kwargs": IMPATIENT}
    sink = RemoteFileSink(url="s3://bucket/out", fs=impatient)
    writer = sink.open(batch(), 0, 0, SCHEMA)
    writer.write(pa.record_batch([pa.array([b"x" * 1000], pa.binary())], schema=SCHEMA))
    fresh_store.kill()
    with pytest.raises(EphemeralWriteError):
        writer.close()
    writer.abort()
    fresh_store.restart()
    made.mkdir("bucket")  # it holds everything in memory
    assert sink.begin(batch()) is False
    sink.finish(batch(), write(sink, batch(), [b"again"]))
    found = objects(made, "bucket/out/part-")
    assert [made.cat(name) for name in found] == [b"again\n"]


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
