"""A queue behind a breakable network, a driver that is killed on the way, and who counts."""

import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from attrs import define, field, frozen

from penstock.conformance.driver import SPEC
from penstock.conformance.kill import Driver, DriverFailed
from penstock.conformance.ledger import attempts
from penstock.conformance.oracle import Oracle, Verdict
from penstock.conformance.waiting import NotInTime
from tests.brokers.server import Server
from tests.faults.proxy import Proxy

LIFE = 900.0
"""Seconds: the life without a fault to come drains most of twenty thousand in small batches."""
POINTS = {
    "optimistic": {"ledger-write": 350, "ledger-finished": 30, "before-ack": 15},
    "pessimistic": {
        "segment-written": 25,
        "manifest-written": 25,
        "ledger-write": 350,
        "ledger-finished": 30,
    },
}
"""Where a driver is killed, and how often 20,000 messages surely come by there."""
FEW = {
    "optimistic": ("before-ack@4", "ledger-write@15:worker"),
    "pessimistic": ("ledger-finished@4", "segment-written@3:worker"),
}
WORKERS = {"optimistic": ["ledger-write"], "pessimistic": ["ledger-write", "segment-written"]}


def rows_in(file: Path) -> int:
    """How many rows an attempt holds."""
    with pa.OSFile(str(file)) as opened, pa.ipc.open_stream(opened) as stream:
        return sum(rows.num_rows for rows in stream)


class Place(Protocol):
    """A queue of a broker, from outside.

    Attributes:
        forgets: How many acknowledgements a broker that is killed may not have written down.
    """

    broker: Server
    forgets: int

    def fill(self, oracle: Oracle) -> None:
        """Send every id once; a value begins with its id and ends there or at a space."""

    def options(self, port: int) -> dict[str, str]:
        """What the connector is told, to come in through this port."""

    def depth(self) -> int:
        """How many messages are in the queue; asked when nobody consumes."""


@frozen
class Faults:
    """What is done on the way: kills at points, and what happens to broker and network."""

    strikes: tuple[str, ...]
    disturbances: tuple["Disturbance", ...]

    def __len__(self) -> int:
        return len(self.strikes) + len(self.disturbances)

    @property
    def repeating(self) -> int:
        """How many windows of messages may come again: Spark retries what only a worker lost, and
        a broker that is killed may have had acknowledgements on the way to its disk, too."""
        kills = sum(not strike.endswith(":worker") for strike in self.strikes)
        return kills + sum(each.windows for each in self.disturbances)


@define
class Disturbance:
    """What is done to the broker or the network once so many records are finished."""

    name: str
    after: int
    act: Callable[["Rig"], None]
    windows: int = 1
    done: bool = False


def broker_killed(rig: "Rig") -> None:
    rig.place.broker.kill()
    rig.place.broker.start()


def broker_frozen(rig: "Rig") -> None:
    rig.place.broker.freeze()
    time.sleep(90)  # the fault itself, not a wait for something
    rig.place.broker.thaw()


def connections_cut(rig: "Rig") -> None:
    rig.proxy.cut()
    rig.proxy.pass_through()


def reply_lost(rig: "Rig") -> None:
    rig.proxy.cut_between_request_and_reply()


def few(delivery: str) -> Faults:
    """One of each kind that takes no minute, within some hundred messages."""
    return Faults(
        FEW[delivery],
        (
            Disturbance("connections cut", 100, connections_cut),
            Disturbance("broker killed", 350, broker_killed, windows=2),
        ),
    )


KINDS: dict[str, tuple[tuple[str, ...], tuple[tuple[Callable[["Rig"], None], int], ...]]] = {
    "driver killed": (("ledger-finished@4",), ()),
    "worker killed": (("ledger-write@8:worker",), ()),
    "connections cut": ((), ((connections_cut, 1),)),
    "reply lost": ((), ((reply_lost, 1),)),
    "broker killed": ((), ((broker_killed, 2),)),
}


def one(kind: str) -> Faults:
    """A single fault, so that what it repeats stands against its own bound."""
    strikes, acts = KINDS[kind]
    return Faults(strikes, tuple(Disturbance(kind, 300, act, windows) for act, windows in acts))


def many(delivery: str, seed: int) -> Faults:
    """Thirty, of every kind, at seeded moments."""
    chance = random.Random(seed)
    points = POINTS[delivery]
    visits = [
        *[(list(points)[n % len(points)], "") for n in range(6)],
        *[(WORKERS[delivery][n % len(WORKERS[delivery])], ":worker") for n in range(12)],
    ]
    strikes: dict[str, str] = {}
    for point, kind in visits:
        while (visit := f"{point}@{chance.randint(2, points[point])}") in strikes:
            continue
        strikes[visit] = kind
    moments = sorted(chance.randint(300, 14_000) for _ in range(12))
    acts = [
        *[("broker killed", broker_killed, 2)] * 3,
        *[("connections cut", connections_cut, 1)] * 5,
        *[("reply lost", reply_lost, 1)] * 3,
        ("frozen for 90 s", broker_frozen, 1),
    ]
    chance.shuffle(acts)
    return Faults(
        tuple(visit + kind for visit, kind in strikes.items()),
        tuple(
            Disturbance(f"{name} after {moment}", moment, act, windows)
            for moment, (name, act, windows) in zip(moments, acts, strict=True)
        ),
    )


@define
class Rig:
    """One run: N ids through a queue into a ledger, with faults in between."""

    folder: Path
    place: Place
    proxy: Proxy
    oracle: Oracle
    delivery: str
    max_rows: int
    connector: str
    more: dict[str, str] = field(factory=dict)
    lives: int = field(default=0, init=False)
    _counted: dict[Path, int] = field(factory=dict, init=False)

    def run(self, faults: Faults) -> Verdict:
        """Until the queue is empty and all faults have happened."""
        self.place.fill(self.oracle)
        driver = self._driver(faults.strikes)
        with self._disturbed(faults.disturbances):
            # A life may end well with messages left: those that a fault put back since it began.
            while not (self._life(driver) and self.place.depth() == 0):
                if driver.lives > len(faults) + 5:
                    raise NotInTime(f"{driver.lives} lives, and the queue is not empty")
        self.lives = driver.lives
        struck = {each["strike"] for each in driver.struck()}
        missed = [str(s) for s in driver.strikes if str(s) not in struck]
        missed += [each.name for each in faults.disturbances if not each.done]
        if missed:
            raise NotInTime(f"never happened: {', '.join(missed)}")
        return self.oracle.judge(self.finished(), duplicates=self._repeatable(faults))

    def _repeatable(self, faults: Faults) -> int:
        """How many messages may be there twice."""
        if self.delivery != "optimistic":
            return 0
        kills = sum(each.act is broker_killed for each in faults.disturbances)
        return faults.repeating * 2 * self.max_rows + kills * self.place.forgets

    def finished(self) -> list[str]:
        """The ids that are in the sink for good, each as often as it is there."""
        done = [each for each in attempts(self.folder / "ledger") if each.finished]
        values = [v for each in done if each.rows.num_rows for v in each.rows["value"].to_pylist()]
        return [value.partition(b" ")[0].decode() for value in values]

    def _count(self) -> int:
        """How many rows are finished; what was counted once is final."""
        for mark in (self.folder / "ledger").glob("*/finished.json"):
            if mark.parent not in self._counted:
                files = [mark.parent / name for name in json.loads(mark.read_text())]
                self._counted[mark.parent] = sum(rows_in(file) for file in files)
        return sum(self._counted.values())

    def _driver(self, strikes: tuple[str, ...]) -> Driver:
        checkpoint = str(self.folder / "checkpoint")
        options = {
            **self.place.options(self.proxy.port),
            "checkpoint": checkpoint,
            "state": str(self.folder / "state"),
            "delivery": self.delivery,
            "max_rows": str(self.max_rows),
            "max_spool": str(500 * self.max_rows),  # a few segments: faults meet receivers at work
            "unique_ids": "true" if self.delivery == "pessimistic" else "false",
            "connector": self.connector,
            **self.more,
        }
        ledger = {"path": str(self.folder / "ledger")}
        spec = {
            "read": {"format": "penstock.under-test", "options": options},
            "write": {"format": "penstock.ledger", "options": ledger},
            "checkpoint": checkpoint,
            "events": str(self.folder / "events"),
            "master": "local[2,4]",  # a task is tried four times: a killed worker is no end
        }
        return Driver(
            [sys.executable, "-m", "penstock.conformance.driver"],
            folder=self.folder / "driver",
            strikes=strikes,
            env={SPEC: json.dumps(spec)},
        )

    def _life(self, driver: Driver) -> bool:
        """Whether it ended by itself, all done that it saw."""
        before = len(driver.struck())
        try:
            code = driver.start().wait(LIFE)
        finally:
            driver.kill()  # a JVM that outlives its driver would still write
        if code and len(driver.struck()) == before:
            raise DriverFailed(f"the driver ended with {code} unstruck\n{driver.log_tail()}")
        return code == 0

    @contextmanager
    def _disturbed(self, disturbances: tuple[Disturbance, ...]) -> Iterator[None]:
        ended = threading.Event()

        def disturb() -> None:
            for each in sorted(disturbances, key=lambda d: d.after):
                while self._count() < each.after:
                    if ended.wait(0.2):
                        return
                each.act(self)
                each.done = True

        disturber = threading.Thread(target=disturb, name="disturber")
        disturber.start()
        try:
            yield
        finally:
            ended.set()
            disturber.join()
