"""A server with the bare protocol: a password, short answers, no posix-rename, no fsync."""

import os
import socket
import threading

import paramiko
import pyarrow as pa
import pytest

from penstock.contracts import Batch, Context, Secret
from penstock.contracts.errors import ReadError, WriteError
from penstock_remotefile.login import close_all
from penstock_remotefile.sink import RemoteFileSink
from penstock_remotefile.source import RemoteFiles

SCHEMA = pa.schema([pa.field("value", pa.binary())])
SHORT = 20_000
OK = paramiko.sftp.SFTP_OK


class Doorman(paramiko.ServerInterface):
    """Lets in who knows the password."""

    def get_allowed_auths(self, username):
        return "password"

    def check_auth_password(self, username, password):
        known = (username, password) == ("courier", "open sesame")
        return paramiko.AUTH_SUCCESSFUL if known else paramiko.AUTH_FAILED

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED


class ShortAnswers(paramiko.SFTPHandle):
    """Gives less than was asked for, and may refuse one write."""

    refuses = -1

    def write(self, offset, data):
        if offset <= self.refuses < offset + len(data):
            return paramiko.sftp.SFTP_FAILURE
        return super().write(offset, data)

    def read(self, offset, length):
        return super().read(offset, min(length, SHORT))

    def stat(self):
        return paramiko.SFTPAttributes.from_stat(os.fstat(self.readfile.fileno()))


def answered(method):
    """What the system refuses, told by its number."""

    def answer(self, *arguments):
        try:
            return method(self, *arguments)
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)

    return answer


class Files(paramiko.SFTPServerInterface):
    """The files of this machine; `posix_rename` stays unsupported."""

    @answered
    def list_folder(self, path):
        found = []
        for name in os.listdir(path):
            each = paramiko.SFTPAttributes.from_stat(os.lstat(os.path.join(path, name)))
            each.filename = name
            found.append(each)
        return found

    @answered
    def stat(self, path):
        return paramiko.SFTPAttributes.from_stat(os.stat(path))

    @answered
    def lstat(self, path):
        return paramiko.SFTPAttributes.from_stat(os.lstat(path))

    @answered
    def open(self, path, flags, attr):
        file = os.fdopen(os.open(path, flags, 0o644), "wb" if flags & os.O_WRONLY else "rb")
        handle = ShortAnswers(flags)
        handle.readfile = handle.writefile = file
        return handle

    @answered
    def remove(self, path):
        os.remove(path)
        return OK

    @answered
    def rename(self, oldpath, newpath):
        if os.path.exists(newpath):
            return paramiko.sftp.SFTP_FAILURE
        os.rename(oldpath, newpath)
        return OK

    @answered
    def mkdir(self, path, attr):
        os.mkdir(path)
        return OK

    @answered
    def rmdir(self, path):
        os.rmdir(path)
        return OK


class PlainServer:
    """Listens until it is closed."""

    def __init__(self):
        self.key = paramiko.ECDSAKey.generate()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.open = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(self.key)
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, Files)
            self.open.append(transport)
            transport.start_server(server=Doorman(), event=threading.Event())

    def close(self):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for transport in self.open:
            transport.close()
            transport.join(10)


@pytest.fixture(scope="module")
def server():
    made = PlainServer()
    yield made
    made.close()


@pytest.fixture
def options(server, tmp_path):
    known = tmp_path / "known_hosts"
    key = server.key
    known.write_text(f"[127.0.0.1]:{server.port} {key.get_name()} {key.get_base64()}\n")
    (tmp_path / "files").mkdir()

    def made(folder="files", password="open sesame", **more):
        return {
            "url": f"sftp://courier@127.0.0.1:{server.port}{tmp_path / folder}",
            "password": Secret(password),
            "known_hosts": str(known),
            "timeout": 10,
            "retries": 1,
            **more,
        }

    return made


def test_a_password_lets_in_and_a_wrong_one_does_not(options):
    RemoteFiles(**options()).check()
    with pytest.raises(ReadError, match="does not let courier in") as caught:
        RemoteFiles(**options(password="CANARY")).check()
    assert "CANARY" not in str(caught.value)


def test_short_answers_lose_and_double_nothing(options, tmp_path):
    data = os.urandom(3_000_000)
    (tmp_path / "files" / "large").write_bytes(data)
    source = RemoteFiles(**options(format="whole"))
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    assert [v for p in parts for rows in source.read(p) for v in rows["value"].to_pylist()] == [
        data
    ]


def test_files_are_published_once_without_posix_rename(options, tmp_path):
    sink = RemoteFileSink(**options("files/out"))
    batch = Batch(Context(query="q", node="n"), 0)

    def written():
        writer = sink.open(batch, 0, 0, SCHEMA)
        writer.write(pa.record_batch([pa.array([b"a" * 100_000, b"b"])], schema=SCHEMA))
        return [writer.close()]

    def visible():
        return [p.read_bytes() for p in (tmp_path / "files" / "out").iterdir() if p.is_file()]

    assert sink.begin(batch) is False
    receipts = written()
    assert visible() == []
    sink.finish(batch, receipts)
    assert visible() == [b"a" * 100_000 + b"\nb\n"]
    assert sink.begin(batch) is True
    sink.finish(batch, written())
    assert visible() == [b"a" * 100_000 + b"\nb\n"]


@pytest.mark.parametrize("at", [0, 1_000_000, 1_999_999])
def test_a_write_refused_in_the_middle_leaves_no_file_with_a_hole(
    options, tmp_path, monkeypatch, at
):
    monkeypatch.setattr(ShortAnswers, "refuses", at)
    storage, _ = RemoteFiles(**options()).storage()
    out = storage.create(b"large")
    with pytest.raises(WriteError, match="cannot be written"):
        fill(out)
    monkeypatch.setattr(ShortAnswers, "refuses", -1)
    out = storage.create(b"large")
    fill(out)
    assert (tmp_path / "files" / "large").read_bytes() == b"0123456789" * 200_000


def fill(out):
    for _ in range(100):
        out.write(b"0123456789" * 2_000)
    out.close()


def test_a_name_that_is_taken_is_replaced_without_posix_rename(options, tmp_path):
    folder = tmp_path / "files"
    (folder / "new").write_bytes(b"new")
    (folder / "taken").write_bytes(b"old")
    storage, _ = RemoteFiles(**options()).storage()
    storage.rename(b"new", b"taken")
    assert (folder / "taken").read_bytes() == b"new"
    storage.rename(b"new", b"taken")  # the answer to the first call was lost
    assert (folder / "taken").read_bytes() == b"new"
    assert [p.name for p in folder.iterdir()] == ["taken"]


def test_a_name_under_way_that_is_gone_is_told_without_posix_rename(options):
    storage, _ = RemoteFiles(**options()).storage()
    with pytest.raises(WriteError, match="the server cannot write"):
        storage.rename(b"nothing", b"new")


def test_an_idle_connection_is_kept_alive(options, monkeypatch):
    monkeypatch.setattr("penstock_remotefile.login._KEEPALIVE", 1)
    heard = threading.Event()
    monkeypatch.setattr(Doorman, "check_global_request", lambda *_: heard.set())
    close_all()
    RemoteFiles(**options()).check()
    assert heard.wait(20)
