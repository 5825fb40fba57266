"""Sources that can be read again from a position: logs, files, streams with offsets.

Subclass `ReplayableSource` and `Planner`; batch reads, streaming reads, limits, AvailableNow
and replay come from the core. Nothing here imports Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from attrs import frozen

from penstock.contracts.options import Configured

Position = dict[str, Any]
"""Where a source stands; JSON-able, and written to Spark's checkpoint as it is."""

Part = Any
"""A piece of a source that one task reads; any picklable value without a live handle."""


@frozen
class Context:
    """Who is asking.

    Attributes:
        pipeline: The pipeline's name; `spark` for a plain Spark read or write.
        node: The node's name; it keeps two ends of one kind apart.
        query: Spark's query id, stable over restarts; empty where Spark does not tell it.
        state: A durable folder of this node under the checkpoint; None in plain Spark
            without a `state` option.
    """

    pipeline: str = "spark"
    node: str = "source"
    query: str = ""
    state: str | None = None


@frozen
class Limit:
    """How much one batch may hold; None means no limit."""

    rows: int | None = None
    bytes: int | None = None
    files: int | None = None


class ReplayableSource(Configured):
    """A source that can read the same records again.

    An attrs-frozen value of options; it must pickle and hold no live handle.
    """

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of every batch `read` yields: `ENVELOPE`, or the source's own columns.

        Called on the driver, once per query, before anything else. May open a connection to
        ask; must close it. SRC-01.

        Raises:
            SchemaError: the schema cannot be known or mapped.
        """

    @abstractmethod
    def planner(self, ctx: Context) -> Planner:
        """The living part on the driver. Called once per query; closed with it."""

    @abstractmethod
    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The records of one part, in the part's order.

        Called on a worker, once per attempt, possibly at the same time as another attempt at
        the same part. Must yield the same rows every time (SRC-11), in batches of bounded size.
        May keep a client cached per process, keyed by its options.

        Raises:
            ReadError: the part cannot be read; EphemeralReadError if a retry may help.
            DataLossError: the part is no longer there.
        """

    def bounded(self) -> bool:
        """Whether it ends by itself: a pipeline of bounded sources ends. Pure."""
        return False

    def check(self) -> None:
        """See that the server answers and takes the credentials, within seconds.

        Called by `doctor` and before a pipeline starts, on the driver. Must free what it opens.

        Raises:
            PenstockError: what is wrong and what to do.
        """
        planner = self.planner(Context(node="check"))
        try:
            planner.initial()
        finally:
            planner.close()


class Planner(ABC):
    """Decides what the next batch holds. Lives on the driver for the whole query.

    Called from one thread at a time. `plan` may be the first call a new process gets.
    """

    @abstractmethod
    def initial(self) -> Position:
        """Where a query without a checkpoint begins. May be called more than once."""

    @abstractmethod
    def latest(self, after: Position, limit: Limit, until: Position | None = None) -> Position:
        """The end of the next batch: past `after`, within `limit`, never beyond `until`.

        Called before each micro-batch. Nothing new: must return `after` unchanged.
        `until` is what an earlier call of `available` returned; AvailableNow ends there.
        A limit smaller than the smallest step takes that one step.

        Raises:
            PositionError: `after` is not a position of this source.
        """

    def available(self, after: Position) -> Position:
        """All that is there now past `after`: where AvailableNow ends.

        Called once, before the first batch. A planner that may hold rows back in `latest`, to
        wait for more of them, must not do so here.
        """
        return self.latest(after, Limit())

    @abstractmethod
    def plan(self, start: Position, end: Position) -> list[Part]:
        """The parts between two positions.

        Must give the same answer in any process, for ever: a replayed batch is the same batch
        (SRC-11). `start == end` gives no parts.

        Raises:
            PositionError: foreign, corrupt, or from the future.
            DataLossError: part of it is gone.
        """

    def final(self) -> Position:
        """The end of a bounded batch read; all that is there now, unless options say less."""
        return self.available(self.initial())

    def durable(self, end: Position) -> None:  # noqa: B027
        """Every sink has finished all up to `end`. Idempotent; may skip positions.

        Called on the driver after Spark has committed the batch; after a crash it may come
        late or, for the last batch, again.
        """

    def lag(self, at: Position) -> dict[str, int]:
        """What is not yet read after `at`, by part, in rows (or files). May be empty."""
        return {}

    def close(self) -> None:  # noqa: B027
        """Free threads, sockets, files. Called once; nothing is called after it."""
