import base64
import os
import pickle
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from attrs import evolve

from penstock.conformance.waiting import until
from penstock.contracts import Batch, Context, Limit, Secret
from penstock.contracts.envelope import ENVELOPE
from penstock.contracts.errors import (
    DataLossError,
    EphemeralReadError,
    EphemeralWriteError,
    OptionError,
    ReadError,
    WriteError,
)
from penstock_remotefile.login import close_all, fingerprint, pool
from penstock_remotefile.sink import RemoteFileSink
from penstock_remotefile.source import RemoteFiles

from .conftest import sftp_options as options

pytestmark = pytest.mark.server
SCHEMA = pa.schema([pa.field("value", pa.binary())])


def read_all(source):
    planner = source.planner(Context())
    try:
        parts = planner.plan(planner.initial(), planner.final())
    finally:
        planner.close()
    return [
        r for p in pickle.loads(pickle.dumps(parts)) for b in source.read(p) for r in b.to_pylist()
    ]


def test_files_are_listed_and_fetched(sshd, folder):
    (folder / "a.txt").write_bytes(b"one\ntwo\n")
    (folder / "deep").mkdir()
    (folder / "deep" / "b.txt").write_bytes(b"three\n")
    source = RemoteFiles(**options(sshd, f"{folder}/*.txt", recursive=True))
    rows = read_all(source)
    assert sorted(row["value"] for row in rows) == [b"one", b"three", b"two"]
    assert {row["stamp"]["part"] for row in rows} == {"a.txt", "deep/b.txt"}
    assert rows[0]["stamp"]["origin"].startswith("sftp://")


def test_a_large_file_arrives_whole_and_in_order(sshd, folder):
    data = os.urandom(20 << 20)
    (folder / "big").write_bytes(data)
    source = RemoteFiles(**options(sshd, folder, format="whole"))
    assert [row["value"] for row in read_all(source)] == [data]


def test_ranges_of_a_large_file_lose_nothing(sshd, folder):
    lines = [b"%d" % i for i in range(300_000)]
    (folder / "big").write_bytes(b"\n".join(lines))
    source = RemoteFiles(**options(sshd, folder, split_bytes=300_000))
    assert [row["value"] for row in read_all(source)] == lines


def test_hostile_names_are_fetched_and_links_out_are_not(sshd, folder, tmp_path):
    names = [b"new\nline", b"\xff\xfe", b"x" * 255, "ü".encode()]
    for name in names:
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write(name.hex().encode())
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "out").symlink_to(tmp_path / "secret")
    rows = read_all(RemoteFiles(**options(sshd, folder)))
    assert sorted(r["value"] for r in rows) == sorted(n.hex().encode() for n in names)


def test_a_url_may_quote_any_byte_of_a_path(sshd, folder):
    below = os.path.join(os.fsencode(folder), b"a b#1\xff")
    os.mkdir(below)
    for name in (b"x y\xff1", b"x y\xff2", b"x*", b"z"):
        with open(os.path.join(below, name), "wb") as file:
            file.write(name)

    def found(name, place="a%20b%231%ff"):
        rows = read_all(RemoteFiles(**options(sshd, f"{folder}/{place}/{name}")))
        return sorted(r["value"] for r in rows)

    assert found("x%20y%FF*") == [b"x y\xff1", b"x y\xff2"]
    assert found("x%20y%ff1") == [b"x y\xff1"]
    assert found("x%2A") == [b"x*"]
    assert found("z", place="a b#1%ff") == [b"z"]


def test_a_folder_whose_name_is_no_text_is_written_again(sshd, folder):
    sink = RemoteFileSink(**options(sshd, folder, format="files"))
    schema = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])
    for number, key in enumerate([b"\xff/a", b"\xff/b"]):
        each = Batch(Context(query="q", node="n"), number)
        writer = sink.open(each, 0, 0, schema)
        writer.write(pa.record_batch([pa.array([key]), pa.array([key])], schema=schema))
        sink.finish(each, [writer.close()])
    below = os.path.join(os.fsencode(folder), b"\xff")
    assert sorted(os.listdir(below)) == [b"a", b"b"]


def test_files_are_taken_once_and_archived(sshd, folder, tmp_path):
    source = RemoteFiles(**options(sshd, folder, after="archive"))
    planner = source.planner(Context(state=str(tmp_path / "state")))
    at = planner.initial()
    for name in ("a", "b"):
        (folder / name).write_bytes(name.encode())
        end = planner.latest(at, Limit())
        rows = [r for p in planner.plan(at, end) for b in source.read(p) for r in b.to_pylist()]
        assert [r["value"] for r in rows] == [name.encode()]
        planner.durable(end)
        at = end
    planner.close()
    assert sorted(p.name for p in (folder / ".archive").iterdir()) == ["a", "b"]
    assert not (folder / "a").exists()


def test_an_unknown_host_key_is_refused_before_any_credential_is_sent(sshd, folder, tmp_path):
    empty = tmp_path / "known_hosts"
    empty.write_text("")
    source = RemoteFiles(**options(sshd, folder, known_hosts=str(empty)))
    before = len(sshd.log.read_text())
    with pytest.raises(ReadError, match="unknown, and nothing was sent") as caught:
        source.check()
    assert "SHA256:" in str(caught.value)
    assert "Accepted" not in sshd.log.read_text()[before:]


def test_a_changed_host_key_is_refused(fresh_sshd):
    source = RemoteFiles(**options(fresh_sshd, fresh_sshd.files))
    source.check()
    close_all()
    fresh_sshd.change_host_key(known=False)
    fresh_sshd.restart()
    before = len(fresh_sshd.log.read_text())
    with pytest.raises(ReadError, match="changed, and nothing was sent"):
        source.check()
    assert "Accepted" not in fresh_sshd.log.read_text()[before:]


def test_a_pinned_fingerprint_stands_for_known_hosts(sshd, folder, tmp_path):
    import paramiko

    kind, key = sshd.host_key.split()[:2]
    pinned = fingerprint(paramiko.PKey.from_type_string(kind, base64.b64decode(key)))
    nowhere = str(tmp_path / "nothing")
    RemoteFiles(**options(sshd, folder, fingerprint=pinned, known_hosts=nowhere)).check()
    wrong = RemoteFiles(**options(sshd, folder, fingerprint="SHA256:" + "A" * 43))
    with pytest.raises(ReadError, match="not the pinned one"):
        wrong.check()


def test_wrong_credentials_fail_fast_and_show_no_secret(sshd, folder):
    source = RemoteFiles(
        **options(sshd, folder, private_key=None, password=Secret("CANARY-password"), retries=0)
    )
    with pytest.raises(ReadError, match="does not let") as caught:
        source.check()
    assert "CANARY" not in str(caught.value) + repr(source)


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_keys_of_all_types_with_a_passphrase(sshd, folder, tmp_path, kind):
    key = tmp_path / "key"
    sshd.run(["ssh-keygen", "-q", "-t", kind, "-N", "open sesame", "-f", str(key)])
    with (sshd.folder / "authorized_keys").open("a") as file:
        file.write(key.with_suffix(".pub").read_text())
    RemoteFiles(
        **options(sshd, folder, private_key=str(key), passphrase=Secret("open sesame"))
    ).check()
    with pytest.raises(ReadError, match="private key cannot be read") as caught:
        RemoteFiles(
            **options(sshd, folder, private_key=str(key), passphrase=Secret("wrong"))
        ).check()
    assert "wrong" not in str(caught.value)


@pytest.fixture
def agent(sshd, tmp_path, monkeypatch):
    socket = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    until(socket.exists, within=10, why="the agent listens")
    sshd.run(["ssh-add", "-q", str(sshd.private_key)], env={"SSH_AUTH_SOCK": str(socket)})
    yield
    process.terminate()
    process.wait()


def test_an_agent_holds_the_key(sshd, folder, agent):
    RemoteFiles(**options(sshd, folder, private_key=None, agent=True)).check()


def test_a_password_in_the_url_is_refused():
    with pytest.raises(OptionError, match="password in the URL") as caught:
        RemoteFiles(url="sftp://me:CANARY@host/x")
    assert "CANARY" not in str(caught.value)


def test_a_server_that_is_gone_is_ephemeral(sshd, folder):
    source = RemoteFiles(
        **{**options(sshd, folder, retries=0), "url": f"sftp://{sshd.user}@127.0.0.1:1/x"}
    )
    with pytest.raises(EphemeralReadError, match="does not answer"):
        source.check()


def test_a_missing_folder_is_named(sshd, folder):
    with pytest.raises(ReadError, match="missing"):
        RemoteFiles(**options(sshd, folder / "nothing")).check()


def test_a_killed_server_costs_a_pause_not_a_byte(fresh_sshd):
    data = os.urandom(12 << 20)
    (fresh_sshd.files / "big").write_bytes(data)
    source = RemoteFiles(**options(fresh_sshd, fresh_sshd.files, format="whole", retries=8))
    storage, _ = source.storage()
    file = storage.open(b"big")
    got = file.read(1 << 20)
    fresh_sshd.restart()
    while piece := file.read(1 << 20):
        got += piece
    file.close()
    assert got == data


def test_a_frozen_server_is_given_up_and_found_again(fresh_sshd):
    data = os.urandom(40 << 20)
    (fresh_sshd.files / "big").write_bytes(data)
    source = RemoteFiles(
        **options(fresh_sshd, fresh_sshd.files, format="whole", retries=8, timeout=1)
    )
    storage, _ = source.storage()
    file = storage.open(b"big")
    got = file.read(1 << 20)
    fresh_sshd.freeze()
    thaw = threading.Timer(2.5, fresh_sshd.thaw)
    thaw.start()
    while piece := file.read(1 << 20):
        got += piece
    thaw.join()
    file.close()
    assert got == data


def test_a_file_that_changes_during_a_break_is_not_spliced(fresh_sshd):
    path = fresh_sshd.files / "big"
    path.write_bytes(os.urandom(12 << 20))
    storage, _ = RemoteFiles(**options(fresh_sshd, fresh_sshd.files, retries=8)).storage()
    file = storage.open(b"big")
    file.read(1 << 20)
    path.write_bytes(os.urandom(11 << 20))
    fresh_sshd.restart()
    with pytest.raises(DataLossError, match="changed while it was read"):
        drain(file)
    file.close()


def drain(file):
    while file.read(1 << 20):
        continue


def write(sink, batch, *shares, attempt=0):
    receipts = []
    for partition, values in enumerate(shares):
        writer = sink.open(batch, partition, attempt, SCHEMA)
        writer.write(pa.record_batch([pa.array(values, pa.binary())], schema=SCHEMA))
        receipts.append(evolve(writer.close(), partition=partition))
    return receipts


def visible(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and ".penstock" not in p.parts)


def test_a_batch_is_written_once_by_sftp(sshd, folder):
    sink = RemoteFileSink(**options(sshd, folder / "out"))
    batch = Batch(Context(query="q", node="n"), 0)
    assert sink.begin(batch) is False
    receipts = write(sink, batch, [b"a"], [b"b", b"c"])
    assert visible(folder) == []
    sink.finish(batch, receipts)
    assert [p.read_bytes() for p in visible(folder)] == [b"a\n", b"b\nc\n"]
    assert sink.done(batch)
    assert sink.begin(batch) is True
    sink.finish(batch, write(sink, batch, [b"again"], attempt=1))
    assert [p.read_bytes() for p in visible(folder)] == [b"a\n", b"b\nc\n"]
    assert not [p for p in (folder / "out" / ".penstock").rglob("tmp/*/*") if p.is_file()]


@pytest.mark.parametrize("connections", [1, 2, 3])
def test_many_folders_need_no_more_connections_than_there_are(sshd, folder, connections):
    wanted = {"partition_by": ["day"], "connections": connections, "timeout": 3, "retries": 0}
    sink = RemoteFileSink(**options(sshd, folder / "out", **wanted))
    days = [str(i % 5) for i in range(20)]
    rows = pa.record_batch({"value": [b"%d" % i for i in range(20)], "day": days})
    batch = Batch(Context(query="q", node="n"), 0)
    writer = sink.open(batch, 0, 0, rows.schema)
    for at in range(0, 20, 10):
        writer.write(rows.slice(at, 10))
    sink.finish(batch, [writer.close()])
    found = visible(folder)
    assert {p.parent.name for p in found} == {f"day={n}" for n in range(5)}
    lines = sorted(int(line) for p in found for line in p.read_bytes().split())
    assert lines == list(range(20))


def test_a_pool_without_a_free_connection_says_so(sshd, folder):
    (folder / "a").write_bytes(b"x")
    wanted = {"connections": 1, "timeout": 0.5, "retries": 0}
    storage, _ = RemoteFiles(**options(sshd, folder, **wanted)).storage()
    with pool(storage.login).client(), pytest.raises(EphemeralReadError, match="in use") as caught:
        storage.stat(b"a")
    assert "fix: raise connections" in str(caught.value)
    with pool(storage.login).client(), pytest.raises(EphemeralWriteError, match="in use"):
        storage.create(b"b")


def test_a_dead_attempt_is_swept_by_sftp(sshd, folder):
    sink = RemoteFileSink(**options(sshd, folder))
    batch = Batch(Context(query="q", node="n"), 3)
    write(sink, batch, [b"dead"])
    assert sink.begin(batch) is False
    assert not [p for p in folder.rglob("tmp/*/*") if p.is_file()]


def test_a_folder_that_may_not_be_written_is_told(sshd, folder):
    blocked = folder / "blocked"
    blocked.write_bytes(b"a file, not a folder")
    sink = RemoteFileSink(**options(sshd, blocked, retries=0))
    with pytest.raises(WriteError):
        write(sink, Batch(Context(query="q", node="n"), 0), [b"a"])


def test_a_name_that_the_server_cannot_hold_refuses_its_row_alone(sshd, folder, tmp_path):
    out, away = folder / "out", tmp_path / "away"
    for made in (out, away, out / "taken"):
        made.mkdir()
    (out / "link").symlink_to(away)
    (out / "lost").symlink_to(tmp_path / "nowhere")
    (out / "file").write_bytes(b"")
    sink = RemoteFileSink(**options(sshd, out, format="files"))
    schema = sink.accepts(ENVELOPE)
    keys = [b"link/x", b"lost/x", b"taken", b"file/x", b"deep/fine"]
    rows = [{"key": k, "value": b"x"} for k in keys]
    batch = Batch(Context(query="q", node="n"), 0)
    writer = sink.open(batch, 0, 0, schema)
    writer.write(pa.RecordBatch.from_pylist(rows, schema=schema))
    receipt = writer.close()
    sink.finish(batch, [receipt])
    assert [r.rows["key"][0].as_py() for r in receipt.rejected] == keys[:4]
    assert (out / "deep" / "fine").read_bytes() == b"x"
    assert list(away.iterdir()) == []


def test_an_archive_inside_the_folder_is_not_read_again_by_sftp(sshd, folder, tmp_path):
    (folder / "a").write_bytes(b"1\n")
    wanted = {"recursive": True, "after": "archive", "archive": f"{folder}/x/../done"}
    (folder / "x").mkdir()
    planner = RemoteFiles(**options(sshd, folder, **wanted)).planner(Context(state=str(tmp_path)))
    end = planner.latest(planner.initial(), Limit())
    planner.durable(end)
    assert (folder / "done" / "a").exists()
    assert planner.latest(end, Limit()) == end
    planner.close()


def test_the_pool_bounds_connections_and_reuses_them(sshd, folder):
    for i in range(12):
        (folder / f"{i}").write_bytes(b"x" * 100)
    before = sshd.log.read_text().count("Accepted")
    source = RemoteFiles(**options(sshd, folder, connections=2))
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    assert len(parts) > 2
    with ThreadPoolExecutor(len(parts)) as threads:  # all at once
        counts = threads.map(lambda p: sum(b.num_rows for b in source.read(p)), parts)
        assert sum(counts) == 12
    assert sshd.log.read_text().count("Accepted") - before <= 2


def test_the_connector_pickles_without_a_connection(sshd, folder):
    source = RemoteFiles(**options(sshd, folder))
    source.check()
    assert pickle.loads(pickle.dumps(source)) == source
