"""A message that fails every batch cannot loop for ever, and takes no healthy one with it."""

import logging
import sqlite3

import pytest

from penstock.conformance.waiting import until
from penstock.contracts.errors import ReadError
from penstock.spark.queues import parts, set_aside

IDS = [f"m{n:03d}" for n in range(60)]


def live(query, bad):
    """Run batches until one holds the bad message and the driver dies of it; what was committed."""
    done = []
    while True:
        if not query.plan():
            return done, False
        rows = query.rows()
        if bad in rows:
            query.stop()
            query.begin()
            query.commit()  # Spark runs the batch again, and it is empty
            return done, True
        query.commit()
        done += rows


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_the_bad_message_is_set_aside_and_all_others_get_through(broker, query, tmp_path, limit):
    broker.send(*IDS)
    bad = IDS[7]
    running = query(max_rows=50, poison=limit)
    done, deaths = [], 0

    def through():
        nonlocal deaths, done
        more, died = live(running, bad)
        done += more
        deaths += died
        return len(set(done)) == len(IDS) - 1

    until(through, within=120, why="all healthy messages are committed", every=0.02)
    assert set(done) == set(IDS) - {bad}
    assert limit <= deaths <= 12
    (aside,) = set_aside(str(running.checkpoint / "penstock" / "in"))
    assert aside.column("id").to_pylist() == [bad]
    assert running.reader.reportLatestOffset()["poison"] == 1
    running.stop()
    with sqlite3.connect(running.checkpoint / "penstock" / "in" / "suspects.db") as suspects:
        assert suspects.execute("select * from failures").fetchall() == []
    suspects.close()
    broker.restart()
    assert broker.depth() == 0


def test_without_failures_nothing_is_suspected(broker, query):
    broker.send(*IDS)
    running = query(max_rows=20, poison=1)
    done = []

    def all_done():
        nonlocal done
        more, _ = live(running, None)
        done += more
        return len(done) == len(IDS)

    until(all_done, within=90, why="all are committed")
    assert done == IDS


def test_switched_off_it_keeps_no_counts(broker, query):
    broker.send(*IDS[:5])
    running = query(poison=0)
    until(running.plan, within=60, why="a batch can be planned")
    assert not (running.checkpoint / "penstock").exists()


def test_without_a_local_folder_it_says_that_nothing_is_counted(query, caplog):
    with caplog.at_level(logging.WARNING, "penstock.queues"):
        query(checkpoint=None, ack="next-batch", poison=0).plan()
        assert "poison" not in caplog.text
        query(checkpoint=None, ack="next-batch").plan()
    assert "set state" in caplog.text


@pytest.fixture
def spooled(query, tmp_path):
    return lambda **options: query(
        delivery="pessimistic", state=str(tmp_path / "state"), unique_ids=True, **options
    )


def replayed(query, fails, wanted):
    """Run batches, each again as it was after the driver has died of it, as Spark does."""
    done, deaths, again = [], 0, False
    while len(done) < wanted:
        if not again:
            until(query.plan, within=60, why=f"more than {len(done)} of {wanted} arrive")
        rows = fails(query)
        again = rows is None
        if again:
            deaths += 1
            query.stop()
            query.begin()
            query.start = query.logged(query.batch - 1)
        else:
            query.commit()
            done += rows
    return done, deaths


def holding(bad):
    def fails(query):
        rows = query.rows()
        return None if bad in rows else rows

    return fails


def test_a_spooled_batch_that_fails_is_taken_apart_until_the_bad_message_is_alone(
    broker, spooled, tmp_path
):
    broker.send(*IDS)
    bad = IDS[7]
    running = spooled(max_rows=100, poison=3)
    done, deaths = replayed(running, holding(bad), len(IDS) - 1)
    assert sorted(done) == sorted(set(IDS) - {bad})
    assert 4 <= deaths <= 12
    (aside,) = set_aside(str(tmp_path / "state"))
    assert aside.column("id").to_pylist() == [bad]
    inbox = tmp_path / "state" / "inbox"
    until(lambda: not list(inbox.iterdir()), within=20, why="the segments are deleted")


def test_a_spooled_batch_is_replayed_as_it_was_up_to_the_limit(broker, spooled):
    broker.send(*IDS)
    running = spooled(max_rows=100, poison=3)
    seen = []

    def fails(query):
        rows = query.rows()
        seen.append(rows)
        return None if len(seen) < 3 else rows

    replayed(running, fails, 1)
    assert seen[0] == seen[1] == seen[2]


def test_a_message_too_large_for_spark_is_set_aside_from_the_spool(
    broker, spooled, tmp_path, monkeypatch
):
    monkeypatch.setattr(parts, "LARGEST", 10_000)
    broker.send(*IDS[:20])
    broker.send("huge", value=b"x" * 20_000)
    broker.send(*IDS[20:])
    running = spooled(max_rows=100, poison=2)

    def fails(query):
        try:
            return query.rows()
        except ReadError:
            return None

    done, _ = replayed(running, fails, len(IDS))
    assert sorted(done) == IDS
    (aside,) = set_aside(str(tmp_path / "state"))
    assert aside.column("id").to_pylist() == ["huge"]


def test_a_death_while_a_batch_is_taken_apart_loses_and_repeats_nothing(
    broker, spooled, tmp_path, monkeypatch
):
    """Between the smaller batch's manifest and the note that it has its rows."""
    from penstock.spark.queues import apart

    class Death(BaseException):
        pass

    broker.send(*IDS)
    bad = IDS[30]
    running = spooled(max_rows=100, poison=1)
    taken, struck = apart.Apart.taken, []

    def once(self):
        if struck:
            return taken(self)
        struck.append(True)
        raise Death

    monkeypatch.setattr(apart.Apart, "taken", once)

    done = []
    while len(done) < len(IDS) - 1:
        try:
            more, _ = replayed(running, holding(bad), 1)
            done += more
        except Death:
            running.stop()
            running.begin()
    assert struck
    assert sorted(done) == sorted(set(IDS) - {bad})
    assert len(set_aside(str(tmp_path / "state"))) == 1
