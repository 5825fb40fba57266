"""Segments on disk: whole or found out."""

import os

import pytest

from penstock.contracts.errors import ReadError
from penstock.spark.queues.segments import SegmentWriter, read, segments, spooled

from .rows import Given


@pytest.fixture
def writer(tmp_path):
    for name in ("drafts", "inbox"):
        (tmp_path / name).mkdir()
    return SegmentWriter(tmp_path / "drafts", tmp_path / "inbox", 3)


def test_rows_come_back_as_they_were_written(writer, tmp_path):
    made = writer.write([spooled(Given(["a", "b"])), spooled(Given(["c", None]))])
    found = read(tmp_path / "inbox" / made.name)
    assert not found.torn
    assert found.rows.column("id").to_pylist() == ["a", "b", "c", None]
    assert found.rows.column("id_hash").null_count == 1
    assert (made.rows, os.listdir(tmp_path / "drafts")) == (4, [])


def test_names_sort_by_arrival_even_if_the_clock_goes_back(writer, tmp_path, monkeypatch):
    first = writer.write([spooled(Given(["a"]))])
    monkeypatch.setattr("time.time_ns", lambda: 1)
    second = writer.write([spooled(Given(["b"]))])
    third = SegmentWriter(tmp_path / "drafts", tmp_path / "inbox", 0).write([spooled(Given(["c"]))])
    assert segments(tmp_path / "inbox") == [first, second, third]


@pytest.mark.parametrize("cut", [1, 5, 200])
def test_a_torn_end_is_cut_off_and_what_is_before_it_kept(writer, tmp_path, cut):
    made = writer.write([spooled(Given(["a", "b"])), spooled(Given(["c"]))])
    path = tmp_path / "inbox" / made.name
    path.write_bytes(path.read_bytes()[:-cut])
    found = read(path)
    assert found.torn
    assert found.rows.column("id").to_pylist() == ["a", "b"]


def test_a_flipped_bit_is_found(writer, tmp_path):
    path = tmp_path / "inbox" / writer.write([spooled(Given(["a"]))]).name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert read(path).torn


def test_a_full_disk_leaves_nothing_behind_and_says_what_to_do(writer, tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ReadError, match="No space left") as failed:
        writer.write([spooled(Given(["a"]))])
    assert "free space" in str(failed.value)
    assert os.listdir(tmp_path / "inbox") == os.listdir(tmp_path / "drafts") == []
