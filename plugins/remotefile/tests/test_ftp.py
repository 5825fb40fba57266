"""FTP through fsspec, against a real server."""

import os
import threading

import pyarrow as pa
import pytest

from penstock.contracts import Batch, Context, Limit
from penstock.contracts.errors import EphemeralReadError, OptionError, ReadError
from penstock_remotefile.sink import RemoteFileSink
from penstock_remotefile.source import RemoteFiles

pytest.importorskip("fsspec")
pytest.importorskip("pyftpdlib")
pytestmark = [
    pytest.mark.server,
    # The server is built on what Python itself will drop.
    pytest.mark.filterwarnings("ignore:The asyn(core|chat) module:DeprecationWarning"),
]
SCHEMA = pa.schema([pa.field("value", pa.binary())])
WHEN = 1_700_000_000


@pytest.fixture
def server(tmp_path):
    """A server for one folder: its URL and the folder."""
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import FTPServer

    folder = tmp_path / "served"
    folder.mkdir()
    users = DummyAuthorizer()
    users.add_user("me", "canary", str(folder), perm="elradfmwMT")
    handler = type("Handler", (FTPHandler,), {"authorizer": users})
    made = FTPServer(("127.0.0.1", 0), handler)
    ended = threading.Event()

    def serve():
        while not ended.is_set():
            made.serve_forever(timeout=0.05, blocking=False)

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"ftp://127.0.0.1:{made.address[1]}", folder
    ended.set()
    thread.join()
    made.close_all()


ACCESS = {"username": "me", "password": "canary"}


def put(folder, name, data):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (WHEN, WHEN))


def test_files_are_read_once_written_whole_and_archived(server, tmp_path):
    url, folder = server
    put(folder, "in/a.txt", b"1\n2\n")
    put(folder, "in/b.csv", b"no\n")
    source = RemoteFiles(url=f"{url}/in/*.txt", fs=ACCESS, after="archive")
    sink = RemoteFileSink(url=f"{url}/out", fs=ACCESS)
    planner = source.planner(Context(state=str(tmp_path / "state")))
    end = planner.latest(planner.initial(), Limit())
    (part,) = planner.plan(planner.initial(), end)
    rows = list(source.read(part))
    assert [v for each in rows for v in each.column("value").to_pylist()] == [b"1", b"2"]
    assert rows[0].column("event_time")[0].as_py().timestamp() == WHEN
    batch = Batch(Context(query="q", node="n"), 0)
    assert sink.begin(batch) is False
    writer = sink.open(batch, 0, 0, SCHEMA)
    for each in rows:
        writer.write(each.select(["value"]))
    assert not list(folder.glob("out/*.txt"))
    sink.finish(batch, [writer.close()])
    assert [p.read_bytes() for p in folder.glob("out/*.txt")] == [b"1\n2\n"]
    assert sink.begin(batch) is True
    planner.durable(end)
    assert (folder / "in" / ".archive" / "a.txt").read_bytes() == b"1\n2\n"
    assert planner.latest(end, Limit()) == end
    planner.close()


def test_a_file_that_came_again_with_another_time_is_told(server, tmp_path):
    url, folder = server
    put(folder, "in/a.txt", b"1\n")
    source = RemoteFiles(url=f"{url}/in", fs=ACCESS)
    planner = source.planner(Context(state=str(tmp_path / "state")))
    end = planner.latest(planner.initial(), Limit())
    put(folder, "in/a.txt", b"2\n")
    os.utime(folder / "in" / "a.txt", (WHEN + 60, WHEN + 60))
    with pytest.raises(ReadError, match="other content"):
        planner.latest(end, Limit())
    planner.close()


def test_a_large_file_is_read_in_ranges(server):
    url, folder = server
    lines = [b"%07d" % n for n in range(300_000)]
    put(folder, "in/a.txt", b"\n".join(lines))
    source = RemoteFiles(url=f"{url}/in", fs=ACCESS, split_bytes=1_000_000)
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    assert len(parts) >= 3
    assert [v for p in parts for b in source.read(p) for v in b["value"].to_pylist()] == lines


def test_a_wrong_password_is_refused_and_not_shown(server):
    url, _ = server
    source = RemoteFiles(url=f"{url}/in", fs=ACCESS | {"password": "CANARY-wrong"})
    with pytest.raises(ReadError, match="does not let us in") as caught:
        source.check()
    assert not isinstance(caught.value, EphemeralReadError)
    assert "CANARY-wrong" not in str(caught.value)


def test_a_missing_folder_is_named(server):
    url, _ = server
    with pytest.raises(ReadError, match="missing"):
        RemoteFiles(url=f"{url}/nothing", fs=ACCESS).check()


def test_a_password_does_not_go_over_the_net_in_the_clear_unless_that_is_said():
    with pytest.raises(OptionError, match="in the clear"):
        RemoteFiles(url="ftp://files.example.org/in", fs=ACCESS)
    for choice in ("true", "false"):
        RemoteFiles(url="ftp://files.example.org/in", fs=ACCESS | {"tls": choice})
