"""A connector on a place, driven as the core drives it, call by call and without Spark."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from attrs import evolve

from penstock.conformance.case import Case
from penstock.conformance.oracle import Oracle, Verdict
from penstock.conformance.records import Record, envelopes, first_words, made, values_of
from penstock.contracts import (
    Batch,
    Connector,
    Consumer,
    Context,
    Lease,
    Limit,
    Part,
    Planner,
    Position,
    QueueSource,
    Receipt,
    ReplayableSource,
    Sink,
    Writer,
)
from penstock.contracts.envelope import conform
from penstock.contracts.options import parse, to_strings

STEPS = 24
"""Steps of a source whose smallest step is a file."""


class Rig:
    """What every clause gets: the connector, its case, and the core's way of calling it."""

    def __init__(self, connector: Connector, case: Case, folder: Path, seed: int) -> None:
        self.connector = connector
        self.case = case
        self.folder = folder
        self.seed = seed
        self._oracles = 0

    @property
    def shape(self) -> str:
        """Of its source: `replayable`, `queue`, or nothing."""
        source = self.connector.source
        if source is None:
            return ""
        return "queue" if issubclass(source, QueueSource) else "replayable"

    def has(self, capability: str) -> bool:
        """Whether it declares a capability that its place can show."""
        return capability in self.connector.capabilities and capability not in self.case.untried

    # Options and values

    def options(self, side: str) -> dict[str, Any]:
        given = self.case.source if side == "source" else self.case.sink
        if given is None:
            raise AssertionError(f"the connector has a {side}, but the case gives no {side}=")
        return dict(given)

    def strings(self, side: str) -> dict[str, str]:
        """The same options, as Spark carries them."""
        return to_strings(self.source() if side == "source" else self.sink())

    def source(self, **changed: Any) -> Any:
        assert self.connector.source is not None
        return parse(self.connector.source, {**self.options("source"), **changed})

    def replayable(self) -> ReplayableSource:
        made = self.source()
        assert isinstance(made, ReplayableSource)
        return made

    def queue(self) -> QueueSource:
        made = self.source()
        assert isinstance(made, QueueSource)
        return made

    def sink(self, **changed: Any) -> Sink:
        assert self.connector.sink is not None
        return parse(self.connector.sink, {**self.options("sink"), **changed})

    def ctx(self, node: str = "source", query: str = "conformance") -> Context:
        state = self.folder / "state" / node
        state.mkdir(parents=True, exist_ok=True)
        return Context(pipeline="conformance", node=node, query=query, state=str(state))

    # Records in and out

    def oracle(self, count: int) -> Oracle:
        """Fresh ids, unlike those of any earlier call."""
        self._oracles += 1
        return Oracle(count, self.seed + self._oracles)

    def fill(self, records: Sequence[Record], split: int = 0) -> None:
        """Put records into the place."""
        if self.case.seed is not None:
            self.case.seed(records, split)
            return
        assert self.connector.sink is not None, "a source without a sink: the case must give seed="
        self.write({split: [envelopes(records)]}, query=uuid.uuid4().hex)

    def filled(
        self, count: int, splits: int = 1, size: int = 0
    ) -> tuple[Oracle, list[list[Record]]]:
        """Put `count` fresh records into the place, dealt over splits; the oracle and the shares.

        A source that makes its own records is left as it is.
        """
        if self.case.expected is not None:
            return given([each.id for each in self.case.expected]), [list(self.case.expected)]
        oracle = self.oracle(count)
        records = made(oracle, size)
        shares = [records[split::splits] for split in range(splits)]
        for split, share in enumerate(shares):
            self.fill(share, split)
        return oracle, shares

    def few(self, count: int) -> int:
        """So many records, or fewer where a stream takes them step by step, a batch for each."""
        return count if self.case.step == 1 else min(count, STEPS * self.case.step)

    @property
    def splits(self) -> int:
        """How many splits to fill where the number does not matter."""
        return self.case.splits if self.has("splits") and self.case.expected is None else 1

    def ids(self, batches: Sequence[pa.RecordBatch]) -> list[str]:
        if self.case.identify is not None:
            return [id for rows in batches for id in self.case.identify(rows)]
        return first_words(values_of(batches))

    def stored(self) -> list[str]:
        """The ids the place holds now, each as often as it is there."""
        if self.case.read_back is not None:
            return first_words(list(self.case.read_back()))
        if self.connector.source is None:
            raise AssertionError("a sink without a source: the case must give read_back=")
        if issubclass(self.connector.source, QueueSource):
            return self.ids([lease.rows for lease in self.peek()])
        return self.ids(self.read_all())

    def found(self, oracle: Oracle, duplicates: int | None = 0, *, among: bool = False) -> Verdict:
        """What the place holds, judged; a place may take a moment to show what it has.

        Args:
            oracle: Of what was written.
            duplicates: How many are allowed.
            among: Other records may be there too.
        """
        deadline = time.monotonic() + self.case.patience
        known = set(oracle.ids)
        while True:
            ids = self.stored()
            verdict = oracle.judge(
                [id for id in ids if id in known] if among else ids, duplicates=duplicates
            )
            if not verdict.lost or time.monotonic() > deadline:
                return verdict
            time.sleep(0.1)

    def waiting(self) -> list[str]:
        """The ids of the messages that wait in a queue; they stay there."""
        return self.stored()

    # A replayable source

    @contextmanager
    def planner(self, source: ReplayableSource | None = None) -> Iterator[Planner]:
        planner = (source or self.replayable()).planner(self.ctx())
        try:
            yield planner
        finally:
            planner.close()

    def read(self, parts: Sequence[Part], source: ReplayableSource | None = None) -> list[Any]:
        source = source or self.replayable()
        return [rows for part in parts for rows in source.read(part)]

    def read_all(self) -> list[pa.RecordBatch]:
        """A bounded read of what is there."""
        source = self.replayable()
        with self.planner(source) as planner:
            return self.read(planner.plan(planner.initial(), planner.final()), source)

    def batches(
        self, limit: Limit, start: Position | None = None, most: int = 1000
    ) -> list[tuple[Position, Position, list[pa.RecordBatch]]]:
        """Micro-batches under a limit until nothing new comes, as a stream would take them."""
        out: list[tuple[Position, Position, list[pa.RecordBatch]]] = []
        source = self.replayable()
        with self.planner(source) as planner:
            at = planner.initial() if start is None else start
            for _ in range(most):
                end = planner.latest(at, limit)
                if end == at:
                    return out
                out.append((at, end, self.read(planner.plan(at, end), source)))
                at = end
        raise AssertionError(f"the source still had news after {most} batches under {limit}")

    # A queue

    @contextmanager
    def consumer(self, receiver: int = 0) -> Iterator[Consumer]:
        consumer = self.queue().consumer(self.ctx(), receiver)
        try:
            yield consumer
        finally:
            consumer.close()

    def drain(self, consumer: Consumer, limit: Limit | None = None) -> list[Lease]:
        """Receive until nothing has come for the case's quiet time."""
        leases, last = [], time.monotonic()
        most = limit or Limit(rows=self.case.at_once)
        while time.monotonic() - last < self.case.quiet:
            lease = consumer.receive(most, wait=self.case.quiet / 4)
            if lease is not None and lease.rows.num_rows:
                leases.append(lease)
                last = time.monotonic()
                if self.queue().leases == 1:
                    lease.release()
                    break
        return leases

    def peek(self) -> list[Lease]:
        """What waits in the queue; it goes back."""
        with self.consumer() as consumer:
            return self.drain(consumer)

    def take(self, consumer: Consumer) -> list[str]:
        """Receive and acknowledge all there is; the ids."""
        ids: list[str] = []
        last = time.monotonic()
        while time.monotonic() - last < self.case.quiet:
            lease = consumer.receive(Limit(rows=self.case.at_once), wait=self.case.quiet / 4)
            if lease is not None and lease.rows.num_rows:
                ids += self.ids([lease.rows])
                lease.acknowledge()
                last = time.monotonic()
        return ids

    # A sink

    def batch(self, number: int = 0, query: str = "q", partitions: int | None = None) -> Batch:
        return Batch(self.ctx("sink", query), number, partitions)

    def share(
        self, batch: Batch, partition: int, rows: Sequence[pa.RecordBatch], attempt: int = 0
    ) -> Receipt:
        """One task's attempt, up to its receipt."""
        writer, schema = self.opened(batch, partition, rows[0].schema, attempt)
        for each in rows:
            writer.write(conform(each, schema))
        return evolve(writer.close(), partition=partition)

    def opened(
        self, batch: Batch, partition: int, schema: pa.Schema, attempt: int = 0
    ) -> tuple[Writer, pa.Schema]:
        sink = self.sink()
        wanted = sink.accepts(schema)
        return sink.open(batch, partition, attempt, wanted), wanted

    def write(
        self,
        rows: Mapping[int, Sequence[pa.RecordBatch]],
        *,
        number: int = 0,
        query: str = "q",
    ) -> bool:
        """A whole batch as the drain writes it; False if the sink says it is done already."""
        sink, batch = self.sink(), self.batch(number, query, len(rows))
        if sink.begin(batch):
            return False
        receipts = [self.share(batch, partition, each) for partition, each in rows.items()]
        sink.finish(batch, receipts)
        return True


def given(ids: Sequence[str]) -> Oracle:
    """An oracle of ids that the place holds by itself."""
    oracle = Oracle(0, 0)
    object.__setattr__(oracle, "ids", tuple(ids))
    return oracle


def proved(verdict: Verdict) -> None:
    """A verdict that must be good, and about something: zero records prove nothing."""
    assert verdict.sent > 0, "no records were sent: nothing is proved"
    assert verdict.arrived > 0, f"no records arrived: {verdict}"
    verdict.require()
