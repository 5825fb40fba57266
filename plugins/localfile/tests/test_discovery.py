import os
import socket

import pytest
from attrs import evolve

from penstock.contracts import Context, Limit
from penstock.contracts.errors import OptionError, ReadError
from penstock_localfile.engine import afterwards
from penstock_localfile.engine.discovery import Discovery, Rules
from penstock_localfile.engine.ledger import Ledger
from penstock_localfile.engine.local import LocalStorage
from penstock_localfile.source import LocalFiles


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "in"
    made.mkdir()
    return made


@pytest.fixture
def ctx(tmp_path):
    return Context(state=str(tmp_path / "state"))


class Clock:
    now = 1_000_000.0

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds


def looking(folder, **rules):
    """A discovery on a clock of its own; a file's time is the clock's."""
    clock = Clock()
    ledger = Ledger(None, "test")
    storage = LocalStorage(str(folder))
    found = Discovery(storage, Rules(**rules), ledger, clock=clock, ticks=clock, pause=clock.wait)

    def put(name, data=b"x"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (clock.now, clock.now))

    def taken():
        found.look()
        return [(f.entry.path.decode(), f.version) for f in ledger.from_on(0)]

    return clock, put, taken


def test_a_young_file_is_left_alone(folder):
    clock, put, taken = looking(folder, min_age=10)
    put("a")
    assert taken() == []
    clock.wait(9)
    put("a", b"still growing")
    clock.wait(9)
    assert taken() == []
    clock.wait(1)
    assert taken() == [("a", 1)]


def test_a_file_without_its_marker_is_left_alone(folder):
    _, put, taken = looking(folder, marker=".ready")
    put("a")
    put("b")
    put("b.ready", b"")
    assert taken() == [("b", 1)]
    put("a.ready", b"")
    assert taken() == [("b", 1), ("a", 1)]


def test_a_file_listed_before_its_marker_is_not_read_half(folder):
    """The rest of the file and its marker come while the folder is being listed."""
    _, put, _ = looking(folder, marker=".ready")
    put("a", b"half")
    storage, complete = LocalStorage(str(folder)), iter([True])

    class Uploading(LocalStorage):
        def walk(self, *args, **more):
            yield from storage.walk(*args, **more)
            if next(complete, False):
                put("a", b"half and half")
                put("a.ready", b"")

    ledger = Ledger(None, "test")
    found = Discovery(Uploading(str(folder)), Rules(marker=".ready"), ledger)
    for _ in range(2):
        found.look()
    assert [f.entry.size for f in ledger.from_on(0)] == [13]


def test_a_minimum_age_needs_a_time(folder):
    class Timeless(LocalStorage):
        def walk(self, *args, **more):
            return (evolve(e, modified=0) for e in super().walk(*args, **more))

    (folder / "a").write_bytes(b"x")
    found = Discovery(Timeless(str(folder)), Rules(min_age=10), Ledger(None, "test"))
    with pytest.raises(ReadError, match="does not tell") as caught:
        found.look()
    assert "stable or marker" in str(caught.value)


def test_a_file_that_still_grows_is_left_alone(folder):
    clock, put, taken = looking(folder, stable=5)
    assert taken() == []
    put("a", b"1")
    assert taken() == []
    clock.wait(4)
    put("a", b"12")
    assert taken() == []
    clock.wait(4)
    assert taken() == []
    clock.wait(1)
    assert taken() == [("a", 1)]


def test_the_first_look_waits_once_for_stable_files(folder):
    _, put, taken = looking(folder, stable=5)
    put("a")
    assert taken() == [("a", 1)]


def test_a_seen_name_with_other_content_is_an_error(folder):
    _, put, taken = looking(folder)
    put("a")
    taken()
    put("a", b"other")
    with pytest.raises(ReadError, match="other content") as caught:
        taken()
    assert "changed=reprocess" in str(caught.value)


def test_a_seen_name_with_other_content_can_be_ignored(folder):
    _, put, taken = looking(folder, changed="ignore")
    put("a")
    taken()
    put("a", b"other")
    assert taken() == [("a", 1)]


def test_a_seen_name_with_other_content_can_be_a_new_version(folder):
    _, put, taken = looking(folder, changed="reprocess")
    put("a")
    taken()
    put("a", b"other")
    assert taken() == [("a", 1), ("a", 2)]
    assert taken() == [("a", 1), ("a", 2)]


def test_versions_have_stamps_of_their_own(folder, ctx):
    source = LocalFiles(path=str(folder), changed="reprocess")
    planner = source.planner(ctx)
    at = planner.initial()
    stamps = []
    for data in (b"one\n", b"other\n"):
        (folder / "a").write_bytes(data)
        end = planner.latest(at, Limit())
        for part in planner.plan(at, end):
            stamps += [r["stamp"]["part"] for b in source.read(part) for r in b.to_pylist()]
        at = end
    planner.close()
    assert stamps == ["a", "a\\v2"]


def test_hostile_names_are_read_and_named_apart(folder):
    names = [b"new\nline", b"\xff\xfe", b"tab\t", b"back\\slash", b"x" * 255, "ü".encode()]
    for name in names:
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write(name.hex().encode())
    source = LocalFiles(path=str(folder))
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    rows = [r for part in parts for b in source.read(part) for r in b.to_pylist()]
    assert sorted(r["value"] for r in rows) == sorted(n.hex().encode() for n in names)
    assert len({r["stamp"]["part"] for r in rows}) == len(names)
    assert all(r["stamp"]["part"].isprintable() for r in rows)


def test_links_out_of_the_folder_are_not_followed(folder, tmp_path, caplog):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret\n")
    (folder / "link").symlink_to(outside / "secret")
    (folder / "dir").symlink_to(outside)
    (folder / "inside").write_bytes(b"fine\n")
    (folder / "alias").symlink_to(folder / "inside")
    (folder / "dangling").symlink_to(folder / "nothing")
    source = LocalFiles(path=str(folder), recursive=True)
    planner = source.planner(Context())
    parts = planner.plan(planner.initial(), planner.final())
    planner.close()
    rows = [r["value"] for part in parts for b in source.read(part) for r in b.to_pylist()]
    assert rows == [b"fine", b"fine"]
    assert "a link out of the folder" in caplog.text


def test_what_is_no_regular_file_is_passed_over(folder):
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "s"))
    (folder / "a").write_bytes(b"x\n")
    planner = LocalFiles(path=str(folder)).planner(Context())
    assert planner.final()["files"] == 1
    planner.close()


def drained(source, ctx, folder):
    """Read all, and tell the planner that it is durable."""
    planner = source.planner(ctx)
    at = planner.initial()
    end = planner.latest(at, Limit())
    rows = [r for p in planner.plan(at, end) for b in source.read(p) for r in b.to_pylist()]
    planner.durable(end)
    planner.close()
    return rows, end


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ("keep", ["a", "deep/b"]),
        ("delete", []),
        ("archive", [".archive/a", ".archive/deep/b"]),
        ("rename", ["a.done", "deep/b.done"]),
    ],
)
def test_files_are_settled_once_they_are_durable(folder, ctx, after, left):
    (folder / "a").write_bytes(b"1\n")
    (folder / "deep").mkdir()
    (folder / "deep" / "b").write_bytes(b"2\n")
    source = LocalFiles(path=str(folder), recursive=True, after=after)
    rows, end = drained(source, ctx, folder)
    assert len(rows) == 2
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    assert files == left
    planner = source.planner(ctx)
    planner.durable(end)
    assert planner.latest(end, Limit()) == end
    planner.close()


def test_the_archive_may_lie_elsewhere(folder, ctx, tmp_path):
    (folder / "a").write_bytes(b"1\n")
    away = tmp_path / "away"
    drained(LocalFiles(path=str(folder), after="archive", archive=str(away)), ctx, folder)
    assert (away / "a").read_bytes() == b"1\n"
    assert not (folder / "a").exists()


@pytest.mark.parametrize("place", ["done", "./done", "deep/../done", "{root}/done", "{link}/done"])
def test_an_archive_inside_the_folder_is_not_read_again(folder, ctx, tmp_path, place):
    (folder / "deep").mkdir()
    (folder / "a").write_bytes(b"1\n")
    (tmp_path / "link").symlink_to(folder)
    archive = place.format(root=folder, link=tmp_path / "link")
    source = LocalFiles(path=str(folder), recursive=True, after="archive", archive=archive)
    _, end = drained(source, ctx, folder)
    planner = source.planner(ctx)
    assert planner.latest(end, Limit()) == end
    planner.close()
    assert (folder / "done" / "a").read_bytes() == b"1\n"


def test_the_folder_itself_is_no_archive(folder, ctx):
    with pytest.raises(OptionError, match="the archive is the folder that is read"):
        LocalFiles(path=str(folder), after="archive", archive="deep/..").planner(ctx)


def test_a_listing_does_not_look_into_what_it_leaves_out(folder):
    for name in (".archive/a", "_b/c", "done/d", "in/e"):
        (folder / name).parent.mkdir()
        (folder / name).write_bytes(b"x")
    looked = []
    rules = Rules(recursive=True, below="done")
    skip = lambda path: looked.append(path) or rules.skips(path)  # noqa: E731
    found = [e.path for e in LocalStorage(str(folder)).walk(skip=skip)]
    assert found == [b"in/e"]
    assert sorted(looked) == [b".archive", b"_b", b"done", b"in"]


def test_a_name_that_comes_again_does_not_erase_the_archive(folder, ctx):
    source = LocalFiles(path=str(folder), after="archive", changed="reprocess")
    planner = source.planner(ctx)
    at = planner.initial()
    for data in (b"1\n", b"22\n", b"333\n"):
        (folder / "a").write_bytes(data)
        at = planner.latest(at, Limit())
        planner.durable(at)
    planner.close()
    kept = sorted(p.read_bytes() for p in (folder / ".archive").iterdir())
    assert kept == [b"1\n", b"22\n", b"333\n"]


class Killed(BaseException):
    pass


def test_a_file_renamed_after_reading_must_not_pass_for_a_marker(folder):
    with pytest.raises(OptionError, match="would be the marker"):
        LocalFiles(path=str(folder), marker=".done", after="rename")
    LocalFiles(path=str(folder), marker=".done", after="rename", suffix=".read")


@pytest.mark.parametrize("after", ["delete", "archive", "rename"])
@pytest.mark.parametrize("nth", [0, 1, 2])
def test_settling_goes_on_after_a_kill_in_between(folder, ctx, monkeypatch, after, nth):
    for i in range(3):
        (folder / f"{i}").write_bytes(b"%d\n" % i)
    source = LocalFiles(path=str(folder), after=after)
    planner = source.planner(ctx)
    end = planner.latest(planner.initial(), Limit())

    def die(name, number):
        if number == nth:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(afterwards, "reached", die)
        with pytest.raises(Killed):
            planner.durable(end)
    planner.close()
    again = source.planner(ctx)
    assert again.latest(end, Limit()) == end
    again.close()
    assert not any((folder / f"{i}").exists() for i in range(3))


@pytest.mark.parametrize("after", ["delete", "archive", "rename"])
@pytest.mark.parametrize("steps", [1, 2])
def test_no_marker_is_left_by_a_kill_in_between(folder, ctx, monkeypatch, after, steps):
    (folder / "a").write_bytes(b"1\n")
    (folder / "a.ok").write_bytes(b"")
    source = LocalFiles(path=str(folder), after=after, marker=".ok")
    planner = source.planner(ctx)
    end = planner.latest(planner.initial(), Limit())

    left = iter(range(steps - 1))

    def then_die(change):
        def changed(*args, **more):
            change(*args, **more)
            if next(left, None) is None:
                raise Killed

        return changed

    with monkeypatch.context() as patch:
        for name in ("remove", "rename"):
            patch.setattr(LocalStorage, name, then_die(getattr(LocalStorage, name)))
        with pytest.raises(Killed):
            planner.durable(end)
    planner.close()
    again = source.planner(ctx)
    assert again.latest(end, Limit()) == end
    again.close()
    assert not (folder / "a").exists()
    assert not (folder / "a.ok").exists()


def test_a_file_replaced_after_it_was_read_stays(folder, ctx, caplog):
    source = LocalFiles(path=str(folder), after="delete", changed="reprocess")
    (folder / "a").write_bytes(b"1\n")
    planner = source.planner(ctx)
    end = planner.latest(planner.initial(), Limit())
    (folder / "a").write_bytes(b"new content\n")
    planner.durable(end)
    assert (folder / "a").exists()
    assert "stays" in caplog.text
    assert planner.latest(end, Limit()) != end
    planner.close()


def test_a_file_that_is_half_read_is_not_settled(folder, ctx):
    (folder / "a").write_bytes(b"1\n2\n3\n")
    source = LocalFiles(path=str(folder), after="delete")
    planner = source.planner(ctx)
    at = planner.latest(planner.initial(), Limit(rows=2))
    planner.durable(at)
    assert (folder / "a").exists()
    planner.durable(planner.latest(at, Limit(rows=2)))
    assert not (folder / "a").exists()
    planner.close()


def test_the_marker_goes_with_its_file(folder, ctx):
    (folder / "a").write_bytes(b"1\n")
    (folder / "a.ok").write_bytes(b"")
    drained(LocalFiles(path=str(folder), after="delete", marker=".ok"), ctx, folder)
    assert list(folder.iterdir()) == []
