"""How records come into a query and how many: options that every source and sink has."""

from __future__ import annotations

from typing import Any, Literal

from penstock.contracts.errors import OptionError
from penstock.contracts.options import Configured, at_least, connector, option
from penstock.contracts.queue import QueueSource
from penstock.contracts.source import Context, Limit

MIB = 2**20


def _coder(doing: str) -> Any:
    return option(default=None, doc=f"{doing} with this coder.", example="avro")


def _coder_options() -> Any:
    return option(prefix="coder.", doc="The coder's own options, such as coder.schema.")


def settings_class(source: type) -> type[Any]:
    """The options a source takes beside its own, by its shape."""
    return QueueOptions if issubclass(source, QueueSource) else ReadOptions


@connector
class ReadOptions(Configured):
    """What any replayable source takes beside its own options."""

    max_rows: int | None = option(
        default=None, doc="At most so many rows in one micro-batch.", check=at_least(1)
    )
    max_bytes: int | None = option(
        default=None,
        unit="bytes",
        doc="At most so many bytes in one micro-batch.",
        check=at_least(1),
    )
    max_files: int | None = option(
        default=None, doc="At most so many files in one micro-batch.", check=at_least(1)
    )
    checkpoint: str | None = option(
        default=None,
        doc="The query's checkpointLocation, repeated: the source is then told of a batch when "
        "Spark has committed it, not only when the next one begins.",
    )
    state: str | None = option(
        default=None, doc="A durable folder for what the source must remember between runs."
    )
    coder: str | None = _coder("Decode the value of each record, inside the reader,")
    coder_options: dict[str, Any] = _coder_options()

    def limit(self) -> Limit:
        """The limits as the planner takes them."""
        return Limit(rows=self.max_rows, bytes=self.max_bytes, files=self.max_files)


@connector
class WriteOptions(Configured):
    """What any sink takes beside its own options."""

    state: str | None = option(
        default=None, doc="A durable folder for what the sink must remember between runs."
    )
    coder: str | None = _coder("In a pipeline: encode the columns of each record into its value")
    coder_options: dict[str, Any] = _coder_options()


@connector
class QueueOptions(Configured):
    """How a queue's messages come into a query, and when the broker may forget them."""

    delivery: Literal["optimistic", "pessimistic"] = option(
        default="optimistic",
        doc="optimistic: messages stay in the broker until Spark has committed their batch, "
        "nothing is written to disk, a fault may repeat what was in flight. pessimistic: they "
        "are written to a durable spool, then acknowledged; a replay is exact.",
    )
    checkpoint: str | None = option(
        default=None,
        doc="The query's checkpointLocation, repeated, because Spark does not tell a source "
        "where it is. Acknowledgement waits for the commits in it.",
    )
    state: str | None = option(
        default=None,
        doc="A durable local folder for the spool and for counts of poison messages; a folder "
        "in the checkpoint unless given.",
    )
    ack: Literal["commit", "next-batch"] = option(
        default="commit",
        doc="commit: acknowledge when the checkpoint shows the batch's commit. next-batch: "
        "acknowledge when Spark plans the following batch, which needs no checkpoint option, "
        "but the last batch before a stop always comes again.",
    )
    receivers: int = option(
        default=1,
        doc="How many consumers receive side by side: threads when optimistic, processes when "
        "pessimistic. More than one gives up the order across them.",
        check=at_least(1),
    )
    max_rows: int = option(
        default=10_000,
        doc="At most so many messages in a batch. Twice as many may be held unacknowledged.",
        check=at_least(1),
    )
    max_bytes: int = option(
        default=64 * MIB,
        unit="bytes",
        doc="At most so many bytes in a batch; one message that is larger travels alone.",
        check=at_least(1),
    )
    max_wait: float = option(
        default=0.0,
        unit="seconds",
        doc="How long a batch waits to fill up once it has a first message.",
        check=at_least(0),
    )
    parts: int = option(
        default=1,
        doc="Into how many parts a batch is split for tasks side by side; order is kept within "
        "a part.",
        check=at_least(1),
    )
    unique_ids: bool = option(
        default=False,
        doc="You state that no two different messages have the same id and payload. With "
        "pessimistic delivery this makes exactly once.",
    )
    horizon: float = option(
        default=600.0,
        unit="seconds",
        doc="How long ids are remembered to find a message that the broker delivers again. It "
        "runs while messages come: an outage, however long, counts as a tenth of it at most.",
        check=at_least(0),
    )
    poison: int = option(
        default=5,
        doc="A message that fails its batches, each smaller than the one before, is set aside "
        "after so many: as a dead letter of the pipeline, or in the state folder where there is "
        "none. 0 switches it off. Keep it well below the number of deliveries after which the "
        "broker itself gives up.",
        check=at_least(0),
    )
    max_spool: int = option(
        default=1024 * MIB,
        unit="bytes",
        doc="Receivers pause while the spool holds more than this.",
        check=at_least(1),
    )
    spool: Literal["both", "fill", "read"] = option(
        default="both",
        doc="With pessimistic delivery. both: receivers are processes on the driver's host. fill: "
        "this query only receives into the spool, in tasks on executors, and gives no rows. read: "
        "it reads a spool that another query fills. fill and read need the same `state`, on a "
        "filesystem that all hosts share.",
    )
    retry_for: float = option(
        default=600.0,
        unit="seconds",
        doc="How long a lost broker is looked for, with growing pauses, before the query fails.",
        check=at_least(0),
    )
    quiet: float = option(
        default=2.0,
        unit="seconds",
        doc="AvailableNow and drain end after so long without a message where the broker "
        "cannot tell how many wait.",
        check=at_least(0),
    )
    drain: bool = option(
        default=False,
        doc="Allows a plain batch read, which takes messages out of the queue for good: there "
        "is no commit to wait for.",
    )
    coder: str | None = _coder("Decode the value of each message, inside the reader,")
    coder_options: dict[str, Any] = _coder_options()

    def settle(self) -> None:
        if self.unique_ids and self.delivery == "optimistic":
            raise OptionError(
                "unique_ids has no meaning with optimistic delivery, which keeps no ids",
                fix="set delivery=pessimistic, or drop unique_ids",
            )
        if self.ack == "next-batch" and self.checkpoint is not None:
            raise OptionError(
                'ack="next-batch" does not look at the checkpoint',
                fix="drop checkpoint, or drop ack to acknowledge as soon as Spark commits",
            )

        if self.spool != "both" and (self.delivery != "pessimistic" or self.state is None):
            raise OptionError(
                f"spool={self.spool} is about the folder that pessimistic delivery keeps",
                expected="delivery=pessimistic, and state",
                fix="add them; state must be the same folder for the query that fills and the "
                "one that reads",
            )

    def limit(self) -> Limit:
        """The limits of one batch."""
        return Limit(rows=self.max_rows, bytes=self.max_bytes)

    def folder(self, ctx: Context) -> str | None:
        """Where this node keeps what must survive: as given, else within the checkpoint."""
        given = self.state or ctx.state
        if given is None and self.checkpoint is not None:
            return f"{self.checkpoint.rstrip('/')}/penstock/{ctx.node}"
        return given
