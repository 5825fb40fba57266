"""A message that fails every batch cannot loop for ever, and takes no healthy one with it."""

from penstock.conformance.waiting import until
from penstock.spark.queues.poison import set_aside

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


def test_the_bad_message_is_set_aside_and_all_others_get_through(broker, query, tmp_path):
    broker.send(*IDS)
    bad = IDS[7]
    running = query(max_rows=50, poison=4)
    done, deaths = [], 0

    def through():
        nonlocal deaths, done
        more, died = live(running, bad)
        done += more
        deaths += died
        return len(set(done)) == len(IDS) - 1

    until(through, within=120, why="all healthy messages are committed", every=0.02)
    assert set(done) == set(IDS) - {bad}
    assert 3 <= deaths <= 12
    (aside,) = set_aside(str(running.checkpoint / "penstock" / "in"))
    assert aside.column("id").to_pylist() == [bad]
    assert running.reader.reportLatestOffset()["poison"] == 1
    running.stop()
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
