"""Options that every connector has because the binding gives them."""

from __future__ import annotations

from penstock.contracts.options import Configured, at_least, connector, option
from penstock.contracts.source import Limit


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

    def limit(self) -> Limit:
        """The limits as the planner takes them."""
        return Limit(rows=self.max_rows, bytes=self.max_bytes, files=self.max_files)


@connector
class WriteOptions(Configured):
    """What any sink takes beside its own options."""

    state: str | None = option(
        default=None, doc="A durable folder for what the sink must remember between runs."
    )
