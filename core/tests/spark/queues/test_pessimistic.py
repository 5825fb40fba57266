"""Pessimistic delivery: real receiver processes, a real spool, a broker that can be killed."""

import os
import signal
import threading
import time

import pytest

from penstock.conformance import processes
from penstock.conformance.leaks import held
from penstock.conformance.waiting import until
from penstock.contracts import Context, Limit
from penstock.contracts.errors import DataLossError, OptionError, PositionError, ReadError
from penstock.spark.queues import QueueOptions, batch_reader, segments, spool

from .rows import Given

IDS = [f"m{n:04d}" for n in range(200)]


@pytest.fixture
def spooled(query, tmp_path):
    def make(**options):
        options = {"state": str(tmp_path / "state"), **options}
        return query(delivery="pessimistic", **options)

    return make


def taken(query, count):
    seen = []
    while len(seen) < count:
        until(query.plan, within=90, why=f"more than {len(seen)} of {count} rows arrive")
        seen += query.rows()
        query.commit()
    return seen


def told(query):
    return query.reader.reportLatestOffset()


def inbox(tmp_path):
    return segments.segments(tmp_path / "state" / "inbox")


def test_all_messages_arrive_once_in_order_and_leave_the_broker_at_once(broker, spooled):
    broker.send(*IDS)
    running = spooled(max_rows=70)
    assert taken(running, 200) == IDS
    running.stop()
    broker.restart()
    assert broker.depth() == 0


def test_segments_go_when_their_batch_is_committed(broker, spooled, tmp_path):
    broker.send(*IDS[:30])
    running = spooled()
    taken(running, 30)
    until(lambda: not inbox(tmp_path), within=60, why="the segments are deleted")


def test_the_spool_is_never_counted_while_the_watcher_changes_it(broker, spooled, monkeypatch):
    broker.send(*IDS[:30])
    running = spooled(max_wait=0.01)
    counted, ready = [], spool.Spool.ready

    def guarded(self):
        counted.append(running.reader._live._calls._is_owned())
        return ready(self)

    monkeypatch.setattr(spool.Spool, "ready", guarded)
    taken(running, 30)
    told(running)
    assert counted
    assert all(counted)


def test_a_replayed_batch_is_the_same_after_a_restart(broker, spooled):
    broker.send(*IDS[:50])
    running = spooled()
    until(running.plan, within=90, why="a batch can be planned")
    first, start, end = running.rows(), running.start, running.at
    running.stop()
    broker.send(*IDS[50:60])
    running.begin()
    running.start, running.at = start, end
    assert running.rows() == first
    running.commit()
    assert first + taken(running, 60 - len(first)) == IDS[:60]


@pytest.mark.parametrize("batches", [1, 3])
def test_a_new_checkpoint_with_an_old_state_folder_is_refused_at_once(
    broker, spooled, tmp_path, batches
):
    running = spooled()
    for number in range(batches):
        broker.send(*IDS[10 * number : 10 * number + 10])
        taken(running, 10)
    until(lambda: not inbox(tmp_path), within=60, why="the segments are deleted")
    running.stop()
    broker.send(*IDS[100:])
    fresh = tmp_path / "fresh"
    running = spooled(checkpoint=str(fresh))
    for name in ("offsets", "commits"):
        (fresh / name).mkdir(parents=True)
    running.checkpoint = fresh
    running.begin()
    with pytest.raises(PositionError, match="another checkpoint"):
        running.plan()


def test_a_manifest_that_was_never_logged_is_used_again(broker, spooled, tmp_path):
    broker.send(*IDS[:50])
    running = spooled()
    until(running.plan, within=90, why="a batch can be planned")
    first = running.rows()
    running.stop()
    (running.checkpoint / "offsets" / "0").unlink()
    broker.send(*IDS[50:])
    running.begin()
    assert running.plan()
    assert running.rows() == first


def test_what_comes_again_after_a_kill_before_the_acknowledgement_is_dropped(
    broker, spooled, tmp_path
):
    """The child dies between segment and acknowledgement; the broker delivers again."""
    broker.send(*IDS[:20])
    os.environ["PENSTOCK_OBSERVER"] = "penstock.conformance.kill:observer"
    os.environ["PENSTOCK_KILL_FOLDER"] = str(tmp_path)
    os.environ["PENSTOCK_KILL_AT"] = "segment-written@1:worker"
    try:
        running = spooled(unique_ids=True)
        seen = taken(running, 20)
        broker.send("end")
        seen += taken(running, 1)
        report = told(running)
    finally:
        for name in ("PENSTOCK_OBSERVER", "PENSTOCK_KILL_FOLDER", "PENSTOCK_KILL_AT"):
            del os.environ[name]
    assert seen == [*IDS[:20], "end"]
    assert report["duplicates"] > 0
    assert report["restarts"] == 1


def test_a_torn_last_record_is_cut_off_kept_aside_and_told(broker, spooled, tmp_path):
    broker.send(*IDS[:20])
    running = spooled()
    running.plan()  # starts the receivers
    until(lambda: sum(s.rows for s in inbox(tmp_path)) == 20, within=90, why="all are spooled")
    broker.send(*IDS[20:30])
    until(lambda: sum(s.rows for s in inbox(tmp_path)) == 30, within=90, why="these too")
    running.stop()
    last = tmp_path / "state" / "inbox" / inbox(tmp_path)[-1].name
    last.write_bytes(last.read_bytes()[:-3])
    running.begin()
    sound = 20 + segments.read(last).rows.num_rows
    assert sound < 30
    assert taken(running, sound) == IDS[:sound]
    until(lambda: running.plan() or told(running)["torn"], within=60, why="the torn one is met")
    assert (tmp_path / "state" / "corrupt" / last.name).exists()
    assert running.reader.reportLatestOffset()["torn"] == 1


def test_a_segment_of_a_logged_batch_that_is_gone_is_a_loss_told_by_name(broker, spooled, tmp_path):
    broker.send(*IDS[:20])
    running = spooled()
    until(running.plan, within=90, why="a batch can be planned")
    running.stop()
    start, end = running.start, running.at
    for segment in inbox(tmp_path):
        (tmp_path / "state" / "inbox" / segment.name).unlink()
    running.begin()
    running.start, running.at = start, end
    with pytest.raises(DataLossError, match="gone or damaged"):
        running.rows()


def test_another_spool_under_the_same_checkpoint_is_refused(broker, spooled, tmp_path):
    broker.send(*IDS[:20])
    running = spooled()
    taken(running, 20)
    running.stop()
    other = spooled(state=str(tmp_path / "other"))
    with pytest.raises(PositionError, match="another spool"):
        other.plan()


def test_a_second_query_on_the_same_state_dies(broker, spooled, tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "LOCK_WITHIN", 0.3)
    broker.send(*IDS[:5])
    running = spooled()
    taken(running, 5)
    second = spooled(checkpoint=str(tmp_path / "second"))
    with pytest.raises(ReadError, match="another query uses the same state"):
        second.plan()


def test_available_now_reads_what_was_there_and_ends(broker, spooled):
    broker.send(*IDS)
    running = spooled(max_rows=60)
    running.reader.prepareForTriggerAvailableNow()
    seen = []
    while running.plan():
        seen += running.rows()
        running.commit()
    assert seen == IDS


def test_a_broker_that_comes_back_is_found_again(broker, spooled):
    broker.send(*IDS[:30])
    running = spooled(unique_ids=True)
    seen = taken(running, 30)
    broker.restart()
    broker.send(*IDS[30:60])
    assert seen + taken(running, 30) == IDS[:60]


def test_several_receivers_fill_one_spool(broker, spooled):
    broker.send(*IDS)
    assert sorted(taken(spooled(receivers=2), 200)) == IDS


def test_a_full_spool_pauses_the_receivers(broker, spooled, tmp_path):
    running = spooled(max_spool=1)
    broker.send(*IDS[:10])
    running.plan()
    until(lambda: inbox(tmp_path), within=90, why="the first segment is there")
    full = lambda: running.reader.reportLatestOffset()["depth"] is not None  # noqa: E731
    until(full, within=60, why="the receiver has measured the spool")
    seen = taken(running, 10)
    assert seen == IDS[:10]


def test_a_receiver_that_cannot_write_acknowledges_nothing_and_says_why(broker, spooled, tmp_path):
    running = spooled()
    running.plan()
    until(lambda: told(running)["depth"] is not None, within=90, why="the receiver is there")
    drafts = tmp_path / "state" / "drafts"
    drafts.rmdir()
    drafts.write_text("no folder any more")
    broker.send(*IDS[:10])

    with pytest.raises(ReadError, match="cannot be written"):
        until(running.plan, within=90, why="the failure reaches Spark")
    assert not inbox(tmp_path)
    broker.restart()
    assert broker.depth() == 10


def test_stop_leaves_no_process_thread_file_or_socket_and_the_folder_to_others(
    broker, spooled, tmp_path
):
    broker.send(*IDS[:20])
    with held(within=10):
        running = spooled(receivers=2)
        taken(running, 20)
        pids = [receiver._process.pid for receiver in running.reader._live._receivers]
        assert all(processes.alive(pid) for pid in pids)
        running.stop()
    assert not any(processes.alive(pid) for pid in pids)
    assert not [t.name for t in threading.enumerate() if t.name.startswith("penstock")]
    spool.Spool(str(tmp_path / "state"), 60, unique=False).close()


def test_a_receiver_that_is_killed_now_and_then_is_started_each_time(broker, spooled):
    """Deaths count together only while it does not get to work in between."""
    running = spooled(retry_for=0.5)
    running.plan()
    (receiver,) = running.reader._live._receivers
    for number in range(3):
        until(lambda: told(running)["depth"] is not None, within=60, why="the receiver is at work")
        began = time.monotonic()
        until(lambda began=began: time.monotonic() - began > 0.6, within=5, why="time has passed")
        pid = receiver._process.pid
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: not processes.alive(pid), within=20, why="it is dead")
        until(lambda n=number: running.plan() or receiver.restarts > n, within=60, why="a new one")


def test_a_receiver_ends_by_itself_when_its_reader_is_gone(broker, spooled):
    """As after a kill -9 of the reader: the pipe to the receiver breaks."""
    running = spooled()
    running.plan()
    (receiver,) = running.reader._live._receivers
    until(lambda: told(running)["depth"] is not None, within=90, why="the receiver is there")
    receiver._process.stdin.close()
    until(lambda: not processes.alive(receiver._process.pid), within=60, why="it has ended")


def test_without_a_folder_it_is_refused(query):
    with pytest.raises(OptionError, match="state"):
        query(delivery="pessimistic", checkpoint=None)


@pytest.mark.parametrize("unique", [False, True])
def test_messages_without_an_id_are_counted_and_warned_about_where_ids_matter(
    tmp_path, caplog, unique
):
    kept = spool.Spool(str(tmp_path / "state"), 600, unique)
    folders = kept.folders
    writer = segments.SegmentWriter(folders / "drafts", folders / "inbox", 0)
    for number in range(2):
        writer.write([segments.spooled(Given([None, "a", None]))])
        kept.plan(number, Limit())
    kept.close()
    assert kept.nameless == 4
    assert caplog.text.count("have no id") == int(unique)


def test_a_drain_refuses_what_only_a_stream_keeps():
    for given in ({"delivery": "pessimistic", "state": "s"}, {"state": "s"}):
        with pytest.raises(OptionError, match="availableNow"):
            batch_reader(None, QueueOptions(drain=True, **given), Context(node="in"), None)
