"""Spark's checkpoint as the core reads it: both formats, local and through a URL."""

import threading

import pytest

from penstock.conformance.waiting import until
from penstock.contracts.errors import OptionError, ReadError
from penstock.spark.commitlog import CommitLog, Watcher, local_path, parse_offsets


@pytest.fixture
def checkpoint(tmp_path):
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    return tmp_path


def logged(checkpoint, number, *lines):
    (checkpoint / "offsets" / str(number)).write_text("\n".join(["v1", "{}", *lines]))


def committed(checkpoint, number):
    (checkpoint / "commits" / str(number)).write_text("v1\n{}")


def test_an_empty_checkpoint_has_nothing(tmp_path):
    log = CommitLog(str(tmp_path / "not-yet"))
    assert (log.planned(), log.committed(), log.committed_offsets()) == (None, None, [])


def test_the_newest_batch_is_found_however_many_came_since(checkpoint):
    log = CommitLog(str(checkpoint))
    logged(checkpoint, 7, '{"a": 1}')
    committed(checkpoint, 7)
    assert log.committed_offsets() == [{"a": 1}]
    for number in (8, 9):
        logged(checkpoint, number, f'{{"a": {number}}}')
        committed(checkpoint, number)
    logged(checkpoint, 10, '{"a": 10}')
    assert (log.planned(), log.committed()) == (10, 9)
    assert log.committed_offsets() == [{"a": 9}]


def test_temporary_files_are_no_commits(checkpoint):
    (checkpoint / "commits" / ".3.1234.tmp").write_text("v1")
    (checkpoint / "commits" / ".3.crc").write_text("")
    assert CommitLog(str(checkpoint)).committed() is None


def test_both_formats_give_the_positions_that_are_json_objects():
    assert parse_offsets('v1\n{}\n{"a": 1}\n-\n17\n{"b": 2}') == [{"a": 1}, {"b": 2}]
    assert parse_offsets('v2\n{}\n0:{"a": 1}\n1:-\nsrc:{"b": 2}') == [{"a": 1}, {"b": 2}]
    with pytest.raises(ReadError, match="format"):
        parse_offsets("v9\n{}")


def test_a_url_is_watched_too(checkpoint):
    logged(checkpoint, 0, '{"a": 0}')
    committed(checkpoint, 0)
    assert CommitLog(f"file://{checkpoint}").committed_offsets() == [{"a": 0}]
    with pytest.raises(OptionError, match="next-batch"):
        CommitLog("nosuch://host/folder")


def test_local_locations_are_known_by_their_form():
    assert local_path("/a b/c") == "/a b/c"
    assert local_path("file:///a%20b") == "/a b"
    assert local_path("s3://bucket/x") is None


def test_the_watcher_tells_once_per_batch_and_at_its_end(checkpoint):
    told = []
    watcher = Watcher(CommitLog(str(checkpoint)), told.append, every=0.01)
    logged(checkpoint, 0, '{"a": 0}')
    committed(checkpoint, 0)
    until(lambda: told == [[{"a": 0}]], within=5, why="the first commit is told")
    logged(checkpoint, 1, '{"a": 1}')
    committed(checkpoint, 1)
    watcher.close()
    assert told == [[{"a": 0}], [{"a": 1}]]
    assert not [t for t in threading.enumerate() if t.name == "penstock-commits"]


def test_what_the_watcher_met_is_raised_when_it_is_closed(checkpoint):
    logged(checkpoint, 0, '{"a": 0}')
    committed(checkpoint, 0)
    met = threading.Event()

    def fail(_):
        met.set()
        raise ValueError("broken")

    watcher = Watcher(CommitLog(str(checkpoint)), fail, every=0.01)
    assert met.wait(5)
    with pytest.raises(ValueError, match="broken"):
        watcher.close()


def test_an_offset_log_of_an_unknown_format_is_refused():
    with pytest.raises(ReadError, match="a format that is not known here") as caught:
        parse_offsets("v9\n{}\n{}")
    assert caught.value.expected == "v1 or v2"
