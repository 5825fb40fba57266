"""Which messages count as the same."""

import os
import time

import numpy as np
import pyarrow as pa
import pytest

from penstock.spark.queues.dedup import Memory

from .rows import table


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ids").mkdir()
    return tmp_path / "ids"


def looked(memory, *ids, number=None, **how):
    rows = table(*ids, **how)
    found = memory.look(rows)
    if number is not None:
        memory.remember(number, rows, found.duplicate)
    return found.duplicate.tolist(), found.same_id


def test_a_redelivered_copy_is_dropped(folder):
    memory = Memory(folder, 600, unique=False)
    assert looked(memory, "a", "b", number=1) == ([False, False], 0)
    assert looked(memory, "b", "c", redelivered=True) == ([True, False], 0)


def test_two_fresh_messages_of_one_id_are_both_kept_and_counted(folder):
    memory = Memory(folder, 600, unique=False)
    looked(memory, "a", number=1)
    assert looked(memory, "a") == ([False], 1)
    assert looked(memory, "x", "x") == ([False, False], 1)


def test_with_unique_ids_a_fresh_copy_is_dropped_too(folder):
    memory = Memory(folder, 600, unique=True)
    looked(memory, "a", number=1)
    assert looked(memory, "a", "x", "x") == ([True, False, True], 0)


def test_another_payload_is_another_message(folder):
    memory = Memory(folder, 600, unique=True)
    looked(memory, "a", number=1)
    assert looked(memory, "a", values=[b"else"], redelivered=True) == ([False], 1)


def test_messages_without_an_id_are_never_the_same(folder):
    memory = Memory(folder, 600, unique=True)
    looked(memory, None, number=1, values=[b"v"])
    assert looked(memory, None, None, values=[b"v", b"v"]) == ([False, False], 0)
    assert memory.look(table(None, "a", None, values=[b"v", b"v", b"v"])).nameless == 2


def test_ids_survive_a_restart_but_not_those_of_an_unpublished_manifest(folder):
    memory = Memory(folder, 600, unique=True)
    looked(memory, "a", number=1)
    looked(memory, "b", number=2)
    again = Memory(folder, 600, unique=True)
    again.load(upto=1)
    assert looked(again, "a", "b") == ([True, False], 0)
    assert sorted(p.name for p in folder.iterdir()) == ["1.npy"]


def test_ids_are_forgotten_after_the_horizon(folder, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    memory = Memory(folder, 60, unique=True)
    looked(memory, "a", *map(str, range(100)), number=1)
    for number in range(2, 15):
        now += 5
        looked(memory, f"b{number}", number=number)
    assert looked(memory, "a", "b3", "b14") == ([False, True, True], 0)
    assert not (folder / "1.npy").exists()


def test_an_outage_however_long_is_not_forgotten_over(folder, monkeypatch):
    """All that was in flight comes again after it, in more than one batch."""
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    memory = Memory(folder, 60, unique=True)
    looked(memory, "a", "b", number=1)
    now += 10_000
    assert looked(memory, "a", number=2) == ([True], 0)
    now += 1
    assert looked(memory, "b", number=3) == ([True], 0)


def test_ids_are_remembered_though_the_query_was_down_for_longer_than_the_horizon(folder):
    memory = Memory(folder, 60, unique=True)
    looked(memory, "a", number=1)
    looked(memory, "b", number=2)
    for number, ago in ((1, 100_003), (2, 100_000)):
        written = time.time() - ago
        os.utime(folder / f"{number}.npy", (written, written))
    again = Memory(folder, 60, unique=True)
    again.load(upto=2)
    assert looked(again, "a", number=3) == ([True], 0)
    assert looked(again, "b", number=4) == ([True], 0)


def test_after_a_restart_ids_are_as_old_as_the_messages_since(folder):
    memory = Memory(folder, 60, unique=True)
    for number in range(1, 16):
        looked(memory, f"m{number}", number=number)
        written = time.time() + 5 * number
        os.utime(folder / f"{number}.npy", (written, written))
    again = Memory(folder, 60, unique=True)
    again.load(upto=15)
    assert looked(again, "m1", "m4", "m15") == ([False, True, True], 0)
    assert not (folder / "1.npy").exists()


def test_a_horizon_of_nothing_remembers_nothing_for_long(folder, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    memory = Memory(folder, 0, unique=True)
    looked(memory, "a", number=1)
    now += 1
    looked(memory, "b", number=2)
    assert looked(memory, "a", "b") == ([False, True], 0)


def test_many_batches_are_looked_up_as_a_set_would(folder, penstock_seed):
    random = np.random.default_rng(penstock_seed)
    memory, known = Memory(folder, 600, unique=True), set()
    for number in range(1, 30):
        ids = [str(n) for n in random.integers(0, 2000, size=random.integers(1, 200))]
        wanted = []
        for each in ids:
            wanted.append(each in known)
            known.add(each)
        assert looked(memory, *ids, number=number)[0] == wanted
    assert len(memory) == len(known)


@pytest.mark.parametrize("unique", [False, True])
def test_whatever_the_ids_each_row_is_held_against_all_that_were_kept(
    folder, penstock_seed, unique
):
    random = np.random.default_rng(penstock_seed)
    memory, kept = Memory(folder, 600, unique), []
    for number in range(30):
        ids = [f"m{n}" for n in random.integers(0, 40, 12)]
        values = [b"v%d" % n for n in random.integers(0, 3, 12)]
        again = (random.random(12) < 0.2).tolist()
        rows = table(*ids, values=values)
        at = rows.schema.get_field_index("redelivered")
        rows = rows.set_column(at, rows.schema.field(at), pa.array(again))
        wanted = []
        for name, value, redelivered in zip(ids, values, again, strict=True):
            olds = [old[2] for old in kept if old[:2] == (name, value)]
            wanted.append(any(unique or old or redelivered for old in olds))
            if not wanted[-1]:
                kept.append((name, value, redelivered))
        found = memory.look(rows)
        assert found.duplicate.tolist() == wanted
        memory.remember(number, rows, found.duplicate)


def test_a_producer_that_gives_all_its_messages_one_id_costs_no_more_than_others(folder):
    memory = Memory(folder, 600, unique=False)
    values = [b"%d" % n for n in range(20_000)]
    for number in range(2):
        rows = table(*["same"] * len(values), values=values)
        found = memory.look(rows)
        assert not found.duplicate.any()
        memory.remember(number, rows, found.duplicate)
    assert found.same_id == len(values)
