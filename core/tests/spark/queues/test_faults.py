"""Both deliveries with everything killed at seeded moments, on a little broker and without Spark.

What Spark and real brokers add is in `tests/faults`; here there is time for many more faults.
"""

import json
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.conformance import processes
from penstock.conformance.oracle import Oracle
from penstock.conformance.waiting import until

MAX_ROWS = 250
PROGRAM = Path(__file__).with_name("stand_in.py")


class Run:
    """The program in `stand_in`, killed and started again."""

    def __init__(self, folder, broker, delivery, seed):
        self.folder = folder
        self.broker = broker
        self.chance = random.Random(seed)
        options = {"delivery": delivery, "max_rows": MAX_ROWS, "state": str(folder / "state")}
        if delivery == "pessimistic":
            # Little is spooled ahead, so that faults meet receivers at work.
            options |= {"unique_ids": True, "receivers": 2, "max_spool": 200_000}
        self.options = json.dumps(options)
        (folder / "sink").mkdir()

    def start(self):
        command = [sys.executable, str(PROGRAM), str(self.folder), str(self.broker.port)]
        self.process = subprocess.Popen([*command, self.options], start_new_session=True)

    def arrived(self):
        done = sorted(self.folder.glob("sink/*"), key=lambda path: path.name)
        return [name for path in done if not path.suffix for name in json.loads(path.read_text())]

    def batches(self):
        return len([path for path in self.folder.glob("sink/*") if not path.suffix])

    def strike(self):
        """Wait until work is done again, then for a moment, then kill something."""
        before = self.batches()
        until(lambda: self.batches() > before + self.chance.randint(0, 2), within=60,
              why="it is at work again")  # fmt: skip
        threading.Event().wait(self.chance.uniform(0, 0.3))  # the moment is the fault's own
        kind = self.chance.choice(["all", "all", "broker", "child"])
        children = [pid for pid in processes.tree(self.process.pid) if pid != self.process.pid]
        if kind == "broker":
            self.broker.restart()
        elif kind == "child" and children:
            processes.slay(self.chance.choice(children))
        else:
            self.kill()
            self.start()

    def kill(self):
        processes.slay(self.process.pid)
        self.process.wait()

    def finish(self, ids):
        until(lambda: ids <= set(self.arrived()), within=120, why="all have arrived", every=0.3)
        (self.folder / "end").touch()
        until(lambda: self.process.poll() is not None, within=60, why="it stops")
        assert self.process.returncode == 0


@pytest.fixture
def run(broker, tmp_path, penstock_seed):
    made = []

    def make(delivery):
        made.append(Run(tmp_path, broker, delivery, penstock_seed))
        return made[-1]

    yield make
    for each in made:
        if each.process.poll() is None:
            each.kill()


@pytest.mark.faults
@pytest.mark.timeout(400)
@pytest.mark.parametrize("delivery", ["optimistic", "pessimistic"])
@pytest.mark.parametrize(
    ("size", "faults"),
    [(6_000, 6), pytest.param(20_000, 30, marks=pytest.mark.slow)],
    ids=["short", "long"],
)
def test_kills_lose_nothing_and_repeat_no_more_than_promised(
    run, broker, delivery, size, faults, penstock_seed, judged
):
    oracle = Oracle(size, penstock_seed)
    share = size // (faults + 1)
    broker.send(*oracle.ids[:share])
    running = run(delivery)
    running.start()
    for number in range(1, faults + 1):
        broker.send(*oracle.ids[number * share : (number + 1) * share])
        running.strike()
    broker.send(*oracle.ids[(faults + 1) * share :])
    running.finish(set(oracle.ids))
    assert broker.depth() == 0
    allowed = 0 if delivery == "pessimistic" else faults * 2 * MAX_ROWS
    judged(f"{delivery}, no Spark", faults, oracle.judge(running.arrived(), duplicates=allowed))
