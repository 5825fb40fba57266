"""The folders and logs of a checkpoint; no Spark session needed."""

import os
from pathlib import Path

import pytest

from penstock.contracts.errors import LayoutError
from penstock.spark.checkpoint import BatchLog, Checkpoint, write_whole


@pytest.mark.parametrize("torn", ['{"fini', "{", '{"layout": "left", "tasks": 2'])
def test_a_log_that_was_cut_in_its_last_line_goes_on(tmp_path, torn):
    log = BatchLog(tmp_path / "3.log", 3)
    log.finish("left")
    with open(log.path, "a") as file:
        file.write(torn)
    assert log.finished("left")
    log.fix_layout("right", 4)
    log.finish("right")
    assert log.finished("left")
    assert log.finished("right")
    with pytest.raises(LayoutError):
        log.fix_layout("right", 5)


def test_a_log_that_holds_only_a_cut_line_begins_anew(tmp_path):
    log = BatchLog(tmp_path / "3.log", 3)
    log.path.write_text('{"fini')
    log.finish("left")
    assert log.path.read_text() == '{"finished": "left"}\n'


def test_no_two_nodes_share_a_folder(tmp_path):
    place = Checkpoint(str(tmp_path))
    names = [
        "orders eu",
        "orders_eu",
        "orders/eu",
        "orders%20eu",
        "orders.eu",
        "é",
        ".",
        "..",
        "a..",
    ]
    folders = {Path(place.node(name)) for name in names}
    assert len(folders) == len(names)
    assert {folder.parent for folder in folders} == {tmp_path / "penstock" / "nodes"}
    assert {folder.resolve().parent for folder in folders} == {tmp_path / "penstock" / "nodes"}


def test_a_plain_name_is_its_folders(tmp_path):
    for name in ("decode-json", "orders_2", "é.x"):
        assert Path(Checkpoint(str(tmp_path)).node(name)).name == name


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "file://localhost{}"])
def test_a_checkpoint_is_in_one_place_however_it_is_written(tmp_path, form):
    place = Checkpoint(form.format(tmp_path))
    assert place.state == tmp_path / "penstock"


def test_a_relative_checkpoint_is_below_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = Checkpoint("state")
    assert place.location == str(tmp_path / "state")
    monkeypatch.chdir("/")
    assert place.state == tmp_path / "state" / "penstock"


def test_a_file_that_is_replaced_is_in_its_folder_for_good(tmp_path, monkeypatch):
    synced = []
    real = os.fsync

    def fsync(handle):
        synced.append((os.readlink(f"/proc/self/fd/{handle}"), (tmp_path / "a.json").exists()))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(tmp_path / "a.json", "{}")
    assert [held for _, held in synced] == [False, True]
    assert synced[-1][0] == str(tmp_path)


def test_another_layout_of_a_batch_is_refused(tmp_path):
    log = BatchLog(tmp_path / "3.log", 3)
    log.fix_layout("left", 2, "key_by customer, split by key over 2")
    log.fix_layout("left", 2, "key_by customer, split by key over 2")
    with pytest.raises(LayoutError, match="begun with another layout") as refused:
        log.fix_layout("left", 2, "key_by id, split by key over 2")
    assert refused.value.expected == "2 tasks: key_by customer, split by key over 2"
    assert refused.value.got == "2 tasks: key_by id, split by key over 2"


def test_a_log_of_before_there_was_a_layout_in_it_counts(tmp_path):
    log = BatchLog(tmp_path / "3.log", 3)
    log.path.write_text('{"layout": "left", "tasks": 2}\n')
    log.fix_layout("left", 2, "merge-sort")
    with pytest.raises(LayoutError, match="another number of tasks"):
        log.fix_layout("left", 3, "merge-sort")
