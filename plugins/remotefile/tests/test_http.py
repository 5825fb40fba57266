import http.server
import threading
from typing import ClassVar

import pytest

from penstock.contracts import Context
from penstock.contracts.errors import DataLossError, OptionError, ReadError
from penstock.contracts.options import parse, shown
from penstock_remotefile.source import RemoteFiles

FILES = {"/a.txt": b"one\ntwo\n", "/big": b"0123456789" * 50_000}


class Handler(http.server.BaseHTTPRequestHandler):
    ranges = True
    tags = ('"v1"', '"v1"')  # of HEAD, and of GET
    range_says = "bytes {start}-{last}/{size}"
    silent = False  # tells nothing of what GET sends, and sends more
    breaks: ClassVar[list[int]] = []
    stalls: ClassVar[list[int]] = []
    thawed: ClassVar[threading.Event] = threading.Event()
    seen: ClassVar[list[tuple[str, str | None]]] = []

    conditions: ClassVar[list[str | None]] = []
    authorized: ClassVar[list[str | None]] = []

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self._answer(body=False)

    def do_GET(self):
        self._answer(body=True)

    def _answer(self, body):
        self.authorized.append(self.headers.get("Authorization"))
        self.conditions.append(self.headers.get("If-Range"))
        self.seen.append((self.command, self.headers.get("Range")))
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://elsewhere.invalid/x")
            self.end_headers()
            return
        data = FILES.get(self.path)
        if data is None:
            self.send_error(404)
            return
        start = 0
        wanted = self.headers.get("Range")
        if wanted and self.ranges:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            self.send_response(206)
            size = len(data)
            says = self.range_says.format(start=start, last=size - 1, size=size, other=size + 1)
            if says:
                self.send_header("Content-Range", says)
        else:
            self.send_response(200)
        if body and self.silent:
            self.end_headers()
            self.wfile.write(data + b"more")
            return
        self.send_header("Content-Length", str(len(data) - start))
        self.send_header("ETag", self.tags[body])
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        if body and self.stalls:
            self.wfile.write(data[start : start + self.stalls.pop()])
            self.thawed.wait(30)
        elif body:
            cut = self.breaks.pop() if self.breaks else None
            self.wfile.write(data[start : None if cut is None else start + cut])
            self.close_connection = True


@pytest.fixture
def server():
    Handler.ranges, Handler.breaks, Handler.seen, Handler.conditions = True, [], [], []
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    thread.join()
    made.server_close()


def read_all(source):
    planner = source.planner(Context())
    try:
        parts = planner.plan(planner.initial(), planner.final())
    finally:
        planner.close()
    return [r for p in parts for b in source.read(p) for r in b.to_pylist()]


def test_a_list_of_urls_is_read(server):
    source = RemoteFiles(urls=[f"{server}/a.txt"])
    rows = read_all(source)
    assert [r["value"] for r in rows] == [b"one", b"two"]
    assert rows[0]["stamp"]["part"] == f"{server}/a.txt"
    assert rows[0]["event_time"].year == 2024


@pytest.mark.parametrize("ranges", [True, False], ids=["with ranges", "without ranges"])
def test_a_broken_transfer_goes_on_where_it_stopped(server, ranges):
    Handler.ranges = ranges
    Handler.breaks = [100_000, 70_000]
    source = RemoteFiles(url=f"{server}/big", format="whole")
    assert [r["value"] for r in read_all(source)] == [FILES["/big"]]
    assert any(wanted for _, wanted in Handler.seen)
    assert '"v1"' in Handler.conditions


def test_a_server_frozen_during_a_transfer_is_given_up_and_asked_again(server, monkeypatch):
    monkeypatch.setattr(Handler, "stalls", [200_000])
    monkeypatch.setattr(Handler, "thawed", threading.Event())
    source = RemoteFiles(url=f"{server}/big", format="whole", timeout=0.5)
    try:
        assert [r["value"] for r in read_all(source)] == [FILES["/big"]]
    finally:
        Handler.thawed.set()
    assert [method for method, _ in Handler.seen].count("GET") == 2


def test_a_weak_tag_gives_way_to_the_time_when_a_transfer_goes_on(server, monkeypatch):
    monkeypatch.setattr(Handler, "tags", ('W/"v1"', 'W/"v1"'))
    Handler.breaks = [100_000]
    source = RemoteFiles(url=f"{server}/big", format="whole")
    assert [r["value"] for r in read_all(source)] == [FILES["/big"]]
    assert {c for c in Handler.conditions if c} == {"Mon, 01 Jan 2024 00:00:00 GMT"}


@pytest.mark.parametrize(
    ("says", "error"),
    [
        ("", "another range"),
        ("bytes 0-{last}/{size}", "another range"),
        ("bytes {start}-{last}/{other}", "changed while it was read"),
    ],
)
def test_a_range_that_is_not_the_one_asked_for_is_not_joined(server, monkeypatch, says, error):
    monkeypatch.setattr(Handler, "range_says", says)
    Handler.breaks = [100_000]
    with pytest.raises(ReadError, match=error):
        read_all(RemoteFiles(url=f"{server}/big", format="whole"))


@pytest.mark.parametrize("changed", [{"tags": ('"v1"', '"v2"')}, {"silent": True}])
def test_a_file_that_changes_before_its_first_byte_is_not_taken(server, monkeypatch, changed):
    for name, value in changed.items():
        monkeypatch.setattr(Handler, name, value)
    with pytest.raises(DataLossError, match="changed while it was read"):
        read_all(RemoteFiles(url=f"{server}/a.txt"))


def test_a_missing_url_is_an_error(server):
    with pytest.raises(ReadError, match="nothing at this URL"):
        read_all(RemoteFiles(url=f"{server}/nothing"))


def test_a_url_that_goes_away_is_data_loss(server):
    source = RemoteFiles(url=f"{server}/a.txt")
    planner = source.planner(Context())
    (part,) = planner.plan(planner.initial(), planner.final())
    planner.close()
    gone = FILES.pop("/a.txt")
    try:
        with pytest.raises(DataLossError):
            list(source.read(part))
    finally:
        FILES["/a.txt"] = gone


def test_a_redirect_to_another_host_is_refused(server):
    with pytest.raises(ReadError, match="another host"):
        read_all(RemoteFiles(url=f"{server}/away"))


def test_headers_reach_the_server_and_never_print(server):
    given = {"url": f"{server}/a.txt", "header.Authorization": "Bearer CANARY"}
    source = parse(RemoteFiles, given)
    assert "CANARY" not in repr(source) + str(shown(source))
    assert len(read_all(source)) == 2
    assert Handler.authorized[-1] == "Bearer CANARY"


@pytest.mark.parametrize(
    "options",
    [
        {"urls": ["https://x/a", "https://me:CANARY@x/b"]},
        {"urls": ["https://CANARY@x/b"]},
        {"url": "s3://x/a", "after": "archive", "archive": "s3://me:CANARY@y/done"},
    ],
)
def test_what_lets_one_in_is_refused_in_every_url(options):
    with pytest.raises(OptionError, match="seen in plans and logs") as caught:
        RemoteFiles(**options)
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("name", ["Authorization", "X-Api-Key"])
def test_a_header_that_lets_one_in_goes_in_the_clear_only_where_that_is_said(name):
    given = {"urls": ["https://x/a", "http://x/b"], "headers": {name: "CANARY"}}
    with pytest.raises(OptionError, match="in the clear") as caught:
        RemoteFiles(**given)
    assert "CANARY" not in str(caught.value)
    RemoteFiles(**given, plain_http=True)
    RemoteFiles(urls=["https://x/a"], headers=given["headers"])
    RemoteFiles(urls=["http://x/a"], headers={"Accept": "text/csv"})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"url": "http://x/a", "urls": ["http://x/b"]},
        {"urls": ["file:///etc/passwd"]},
        {"url": "http://x/a", "after": "delete"},
        {"url": "no scheme"},
    ],
)
def test_contradictions_are_refused(options):
    with pytest.raises(OptionError):
        RemoteFiles(**options)
