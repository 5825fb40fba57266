"""An SFTP server that refuses, is full, is slow, or goes away while a file is under way."""

import os
import shutil

import paramiko
import pyarrow as pa
import pytest

from penstock.conformance.waiting import until
from penstock.contracts import Batch, Context, Limit
from penstock.contracts.errors import EphemeralWriteError, ReadError, WriteError
from penstock_remotefile.sink import RemoteFileSink
from penstock_remotefile.source import RemoteFiles
from tests.brokers.fixtures import running
from tests.brokers.openssh import OpenSSH

from .conftest import sftp_options

pytestmark = pytest.mark.server
SCHEMA = pa.schema([pa.field("value", pa.binary())])


def options(server, folder, **more):
    return sftp_options(server, folder, **{"retries": 1, **more})


@pytest.fixture(scope="module")
def reads_only():
    yield from running(OpenSSH({"ForceCommand": "internal-sftp -R"}))


@pytest.fixture(scope="module")
def never_renames():
    yield from running(OpenSSH({"ForceCommand": "internal-sftp -P rename,posix-rename"}))


@pytest.fixture(scope="module")
def never_opens():
    yield from running(OpenSSH({"ForceCommand": "internal-sftp -P open"}))


@pytest.fixture(scope="module")
def never_lists():
    yield from running(OpenSSH({"ForceCommand": "internal-sftp -P opendir"}))


@pytest.fixture
def uploader(sshd):
    """A partner's client."""
    client = paramiko.SSHClient()
    client.load_host_keys(str(sshd.known_hosts))
    client.connect("127.0.0.1", sshd.port, sshd.user, key_filename=str(sshd.private_key))
    with client.open_sftp() as sftp:
        yield sftp
    client.close()


def batch(number=0):
    return Batch(Context(query="q", node="n"), number)


def written(sink, batch, *values):
    writer = sink.open(batch, 0, 0, SCHEMA)
    try:
        for value in values:
            writer.write(pa.record_batch([pa.array([value], pa.binary())], schema=SCHEMA))
        return [writer.close()]
    except BaseException:
        writer.abort()
        raise


def visible(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and ".penstock" not in p.parts)


def read(source, parts):
    return [v for p in parts for rows in source.read(p) for v in rows["value"].to_pylist()]


@pytest.mark.parametrize(
    "rule",
    [{"marker": ".done"}, {"min_age": 3600}, {"stable": 0.2}],
    ids=lambda rule: next(iter(rule)),
)
def test_a_slow_upload_is_never_read_early(sshd, folder, uploader, tmp_path, rule):
    source = RemoteFiles(**options(sshd, folder, format="whole", **rule))
    planner = source.planner(Context(state=str(tmp_path / "state")))
    start = planner.initial()
    assert planner.latest(start, Limit()) == start
    pieces = [os.urandom(50_000) for _ in range(12)]
    with uploader.open(f"{folder}/slow", "wb") as file:
        for piece in pieces:
            file.write(piece)
            file.flush()
            assert planner.latest(start, Limit()) == start, "half a file was taken"
    if "marker" in rule:
        uploader.open(f"{folder}/slow.done", "wb").close()
    if "min_age" in rule:
        uploader.utime(f"{folder}/slow", (1_000_000, 1_000_000))
    until(lambda: planner.latest(start, Limit()) != start, within=20, why="the file is taken")
    end = planner.latest(start, Limit())
    parts = planner.plan(start, end)
    planner.close()
    assert read(source, parts) == [b"".join(pieces)]


def test_one_file_can_be_named(sshd, folder):
    for name in ("a.txt", "b.txt"):
        (folder / name).write_bytes(name.encode())
    source = RemoteFiles(**options(sshd, folder / "b.txt"))
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    assert read(source, parts) == [b"b.txt"]


def test_a_server_that_only_reads_is_told_at_the_first_write(reads_only):
    sink = RemoteFileSink(**options(reads_only, reads_only.files / "out"))
    with pytest.raises(WriteError, match="refuses to write"):
        written(sink, batch(), b"a")
    assert list(reads_only.files.iterdir()) == []


def test_a_batch_refused_half_way_is_finished_when_it_no_longer_is(sshd, never_renames, folder):
    receipts = written(RemoteFileSink(**options(sshd, folder)), batch(), b"a")
    refused = RemoteFileSink(**options(never_renames, folder))
    with pytest.raises(WriteError, match="refuses to write"):
        refused.finish(batch(), receipts)
    assert visible(folder) == []
    RemoteFileSink(**options(sshd, folder)).finish(batch(), receipts)
    assert [p.read_bytes() for p in visible(folder)] == [b"a\n"]


def test_a_file_that_may_not_be_opened_is_named_at_once(never_opens):
    (never_opens.files / "a").write_bytes(b"x")
    source = RemoteFiles(**options(never_opens, never_opens.files, retries=50))
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    with pytest.raises(ReadError, match="does not let us read a file") as caught:
        read(source, parts)
    assert "got: a" in str(caught.value)


def test_a_folder_that_may_not_be_listed_is_named_at_once(never_lists):
    source = RemoteFiles(**options(never_lists, never_lists.files, retries=50))
    with pytest.raises(ReadError, match="does not let us look"):
        source.check()


def test_a_full_disk_of_the_server_stops_a_batch_and_room_lets_it_go_on(sshd, disk):
    sink = RemoteFileSink(**options(sshd, disk.path / "out"))
    large = [os.urandom(100_000).hex().encode() for _ in range(10)]
    with pytest.raises(WriteError, match="cannot be written") as caught:
        written(sink, batch(), *large)
    assert not caught.value.ephemeral
    assert [p for p in disk.path.rglob("*") if p.is_file()] == []
    assert sink.begin(batch()) is False
    # The name is gone at once; the server frees the room when it sees that its client is.
    until(lambda: shutil.disk_usage(disk.path).free > 500_000, within=30, why="there is room again")
    sink.finish(batch(), written(sink, batch(), *large[:2]))
    assert [p.read_bytes().split() for p in visible(disk.path)] == [large[:2]]


def test_a_host_key_that_changes_during_a_transfer_ends_it(fresh_sshd):
    (fresh_sshd.files / "big").write_bytes(os.urandom(12 << 20))
    storage, _ = RemoteFiles(**options(fresh_sshd, fresh_sshd.files, retries=8)).storage()
    file = storage.open(b"big")
    file.read(1 << 20)
    fresh_sshd.change_host_key(known=False)
    fresh_sshd.restart()
    before = len(fresh_sshd.log.read_text())
    with pytest.raises(ReadError, match="changed, and nothing was sent") as caught:
        drain(file)
    assert not caught.value.ephemeral
    assert "Accepted" not in fresh_sshd.log.read_text()[before:]


def drain(file):
    while file.read(1 << 20):
        continue


def test_a_server_killed_during_an_upload_shows_nothing_and_takes_it_again(fresh_sshd):
    out = fresh_sshd.files / "out"
    sink = RemoteFileSink(**options(fresh_sshd, out, retries=8))
    writer = sink.open(batch(), 0, 0, SCHEMA)
    writer.write(pa.record_batch([pa.array([b"x" * 1_000_000])], schema=SCHEMA))
    fresh_sshd.restart()
    with pytest.raises(EphemeralWriteError):
        finish(writer)
    writer.abort()
    assert visible(out) == []
    assert sink.begin(batch()) is False
    sink.finish(batch(), written(sink, batch(), b"again"))
    assert [p.read_bytes() for p in visible(out)] == [b"again\n"]
    assert [p for p in (out / ".penstock").rglob("tmp/*/*") if p.is_file()] == []


def finish(writer):
    for _ in range(8):
        writer.write(pa.record_batch([pa.array([b"x" * 1_000_000])], schema=SCHEMA))
    writer.close()


def test_a_server_frozen_during_an_upload_is_given_up(fresh_sshd):
    out = fresh_sshd.files / "out"
    sink = RemoteFileSink(**options(fresh_sshd, out, timeout=1, retries=1))
    writer = sink.open(batch(), 0, 0, SCHEMA)
    writer.write(pa.record_batch([pa.array([b"x" * 1_000_000])], schema=SCHEMA))
    fresh_sshd.freeze()
    try:
        with pytest.raises(EphemeralWriteError):
            finish(writer)
        writer.abort()
    finally:
        fresh_sshd.thaw()
    assert visible(out) == []
    until(lambda: sink.begin(batch()) is False, within=20, why="the server answers again")
    sink.finish(batch(), written(sink, batch(), b"again"))
    assert [p.read_bytes() for p in visible(out)] == [b"again\n"]


def test_permission_bits_are_kept_if_asked(sshd, folder):
    (folder / "in").mkdir()
    (folder / "in" / "a").write_bytes(b"x")
    (folder / "in" / "a").chmod(0o640)
    source = RemoteFiles(**options(sshd, folder / "in", format="whole", metadata=True))
    planner = source.planner(Context())
    (part,) = planner.plan(planner.initial(), planner.final())
    planner.close()
    (rows,) = source.read(part)
    wanted = {"format": "files", "keep_metadata": True, "keep_times": True}
    sink = RemoteFileSink(**options(sshd, folder / "out", **wanted))
    writer = sink.open(batch(), 0, 0, sink.accepts(rows.schema))
    writer.write(rows)
    sink.finish(batch(), [writer.close()])
    made, origin = (folder / "out" / "a").stat(), (folder / "in" / "a").stat()
    assert made.st_mode & 0o7777 == 0o640
    assert int(made.st_mtime) == int(origin.st_mtime)
