"""Optimistic delivery, call by call, against a broker that redelivers what is not acknowledged."""

import contextlib
import os
import pickle
import threading
from collections import Counter
from typing import ClassVar

import pytest

from penstock.conformance.reference.socket_source import SocketSource
from penstock.conformance.waiting import until
from penstock.contracts import connector
from penstock.contracts.errors import OptionError
from penstock.spark.queues import optimistic, reader, receiver

IDS = [f"m{n:04d}" for n in range(300)]


def planned(query, within=60):
    until(query.plan, within=within, why="a batch can be planned")
    return query.rows()


def taken(query, count):
    """Plan, run and commit until so many rows were seen."""
    seen = []
    while len(seen) < count:
        seen += planned(query)
        query.commit()
    return seen


def held(query):
    return query.reader.reportLatestOffset()["unacknowledged"]


def settled(query):
    """Without a further batch everything is acknowledged."""
    until(lambda: held(query) == 0, within=60, why="the last batch is acknowledged")


def gone(broker):
    """Nothing waits and nothing is leased: a killed broker has nothing to give back."""
    broker.restart()
    return broker.depth() == 0


def test_all_messages_arrive_once_and_in_order(broker, query):
    broker.send(*IDS)
    assert taken(query(max_rows=70), 300) == IDS


def test_nothing_is_acknowledged_before_the_commit_file_is_there(broker, query):
    broker.send(*IDS[:50])
    running = query()
    seen = planned(running)
    while len(seen) < 50:
        running.commit()
        seen += planned(running)
    running.stop()
    # The last batch was not committed: exactly its messages are still in the broker.
    until(lambda: broker.depth() > 0, within=60, why="the uncommitted batch came back")
    again = query()
    left = taken(again, broker.depth())
    assert left == seen[-len(left) :]


def test_an_idle_stream_acknowledges_its_last_batch(broker, query):
    broker.send(*IDS[:20])
    running = query(poison=0)
    taken(running, 20)
    settled(running)
    assert gone(broker)


def test_a_stop_right_after_the_commit_acknowledges_the_last_batch(broker, query):
    broker.send(*IDS[:20])
    running = query()
    taken(running, 20)
    running.stop()
    assert gone(broker)


def test_a_replayed_batch_is_empty_and_its_messages_come_later(broker, query):
    broker.send(*IDS[:20])
    first = query()
    seen = planned(first)
    first.stop()
    start, end = first.start, first.at
    second = query()
    assert second.reader.partitions(start, end) == []
    again = taken(second, 20)
    assert set(again) == set(IDS[:20])
    assert set(seen) <= set(again)


def test_the_first_call_of_a_new_process_may_be_partitions(query):
    start, end = {"e": "another", "n": 5}, {"e": "another", "n": 9}
    assert query().reader.partitions(start, end) == []


def test_a_lost_connection_voids_its_leases_and_the_messages_come_again(broker, query):
    broker.send(*IDS[:20])
    running = query()
    seen = planned(running)
    broker.restart()
    running.commit()
    again = taken(running, 20)
    assert set(again) == set(IDS[:20])
    assert len(seen) + len(again) <= 40
    assert running.reader.reportLatestOffset()["reconnects"] >= 1
    settled(running)
    assert gone(broker)


def test_a_checkpoint_of_another_query_is_found_out(broker, query, tmp_path, monkeypatch):
    monkeypatch.setattr(optimistic, "LOGGED_WITHIN", 0.2)
    broker.send(*IDS[:5])
    running = query(checkpoint=str(tmp_path / "elsewhere"))
    until(running.plan, within=60, why="a batch can be planned")
    with pytest.raises(OptionError, match="does not name this query's checkpoint"):
        running.rows()


def test_a_missing_checkpoint_is_refused_unless_chosen(query):
    with pytest.raises(OptionError, match="next-batch"):
        query(checkpoint=None)
    query(checkpoint=None, ack="next-batch")


def test_next_batch_acknowledges_when_spark_commits_by_call(broker, query):
    broker.send(*IDS[:20])
    running = query(checkpoint=None, ack="next-batch")
    seen = planned(running)
    running.reader.commit(running.at)
    while len(seen) < 20:
        seen += planned(running)
        running.reader.commit(running.at)
    settled(running)
    assert gone(broker)


def test_available_now_reads_what_was_there_and_ends(broker, query):
    broker.send(*IDS)
    running = query(max_rows=100)
    running.reader.prepareForTriggerAvailableNow()
    seen = []
    while running.plan():
        if not seen:
            broker.send("late")
        seen += running.rows()
        running.commit()
    assert seen == IDS


def test_available_now_reads_all_that_was_there_though_the_connection_is_lost(broker, query):
    """What was planned and not acknowledged comes again; it must not count as read."""
    broker.send(*IDS)
    running = query(max_rows=40)
    running.reader.prepareForTriggerAvailableNow()
    assert running.plan()
    seen = running.rows()
    broker.restart()
    until(
        lambda: running.reader.reportLatestOffset()["reconnects"], within=60, why="the loss is seen"
    )
    running.commit()
    while running.plan():
        seen += running.rows()
        running.commit()
    assert set(seen) == set(IDS)


def test_available_now_does_not_end_when_the_connection_is_lost_while_a_batch_fills(
    broker, query, monkeypatch
):
    broker.send(*IDS)
    running = query(max_rows=40)
    running.reader.prepareForTriggerAvailableNow()

    def lost(*_):
        monkeypatch.undo()
        before = running.reader.reportLatestOffset()["reconnects"]
        broker.restart()
        until(
            lambda: running.reader.reportLatestOffset()["reconnects"] > before,
            within=60,
            why="the loss is seen",
        )

    assert running.plan()
    seen = running.rows()
    running.commit()
    monkeypatch.setattr(optimistic, "fill", lost)
    while running.plan():
        seen += running.rows()
        running.commit()
    assert set(seen) == set(IDS)


@connector
class LateSecond(SocketSource):
    """Its second receiver is connected when the first has seen the queue after taking from it."""

    seen: ClassVar[list[int]] = []

    def consumer(self, ctx, receiver):
        made = super().consumer(ctx, receiver)
        if receiver == 0:
            depth = made.depth
            made.depth = lambda: (self.seen.append(depth()), self.seen[-1])[1]
        else:
            until(lambda: self.seen and self.seen[-1] < 300, within=30, why="the first took some")
        return made


def test_available_now_counts_what_was_there_before_the_first_receiver_took_any(
    broker, query, monkeypatch
):
    monkeypatch.setattr(receiver, "DEPTH_EVERY", 0.0)
    broker.send(*IDS)
    running = query(source=LateSecond(port=broker.port), receivers=2, max_rows=100)
    running.reader.prepareForTriggerAvailableNow()
    seen = []
    while running.plan():
        seen += running.rows()
        running.commit()
    assert sorted(seen) == IDS


@connector
class OneLease(SocketSource):
    """A receiver holds one lease; the second takes its first one when it is let."""

    leases = 1
    let: ClassVar[threading.Event] = threading.Event()

    def consumer(self, ctx, receiver):
        made = super().consumer(ctx, receiver)
        if receiver == 1:
            receive = made.receive
            made.receive = lambda limit, wait: receive(limit, wait) if self.let.is_set() else None
        return made


def test_a_receiver_whose_only_lease_is_out_does_not_wait_for_the_others(
    broker, query, monkeypatch
):
    """They fill the next batch while this one runs."""
    for name in ("FILL_WITHIN", "FILL_PAUSE"):
        monkeypatch.setattr(reader, name, 600.0)
    OneLease.let.clear()
    broker.send(*IDS)
    running = query(source=OneLease(port=broker.port), receivers=2, max_rows=200)
    running.reader.prepareForTriggerAvailableNow()
    assert running.plan()
    seen = running.rows()
    assert len(seen) == 100, "the share of one receiver"
    OneLease.let.set()
    running.commit()
    while running.plan():
        seen += running.rows()
        running.commit()
    assert sorted(seen) == IDS


def test_what_is_held_stays_within_two_batches(broker, query):
    broker.send(*IDS)
    running = query(max_rows=20)
    until(running.plan, within=60, why="a batch can be planned")
    until(lambda: held(running) >= 40, within=60, why="the receiver has filled its window")
    assert held(running) == 40


def test_several_receivers_share_the_queue(broker, query):
    broker.send(*IDS)
    assert sorted(taken(query(max_rows=50, receivers=3), 300)) == IDS


def test_stop_leaves_no_thread_and_no_socket(broker, query):
    broker.send(*IDS[:20])
    before = held_by_this_process()
    running = query(receivers=2, poison=0)
    taken(running, 20)
    running.stop()
    assert held_by_this_process() <= before


def held_by_this_process():
    """Its threads, and how many files and sockets it has open."""
    threads = {t.name for t in threading.enumerate() if t.name.startswith("penstock")}
    files = Counter(os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in open_files())
    return Counter(threads) + files


def open_files():
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            os.readlink(f"/proc/self/fd/{fd}")
            found.append(fd)
    return found


def test_the_reader_pickles_without_what_lives_in_it(broker, query):
    running = query()
    running.plan()
    copy = pickle.loads(pickle.dumps(running.reader))
    assert copy.partitions({"e": "a", "n": 0}, {"e": "a", "n": 1}) == []


def test_a_refused_login_fails_the_query(broker, query):
    from penstock.conformance.reference.socket_source import SocketSource
    from penstock.contracts import Secret
    from penstock.contracts.errors import ReadError

    source = SocketSource(port=broker.port, password=Secret("wrong"))
    running = query(source=source)

    with pytest.raises(ReadError, match="refuses"):
        until(running.plan, within=60, why="the refusal reaches Spark")
