"""Clauses of a queue that go through Spark, in a session that the whole run shares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.conformance.clauses import clause
from penstock.conformance.killed import KilledClauses
from penstock.conformance.rig import Rig, proved
from penstock.conformance.through_spark import named, spark_format
from penstock.conformance.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS = 40
STARTS = 12
LIMIT = 16
"""Rows of a batch: small, so that a suspect is soon alone."""


class QueuedClauses(KilledClauses):
    """When a queue is told, whatever becomes of the stream."""

    @clause("QUE-03", "the last batch of an idle, stopped or ended stream is acknowledged")
    def test_que_03_last_batch(self, rig: Rig, penstock_spark: SparkSession) -> None:
        """Spark tells a source of a batch only when it plans the next one, so the last one is
        never told. All the same: a stream that has taken everything and idles has acknowledged
        all of it, which shows when it is then killed with SIGKILL; so has one that is stopped
        as soon as its last batch is committed, and one that AvailableNow has ended."""
        idle = self._optimistic(rig)
        assert idle.ids, "nothing was read"
        assert idle.left == [], f"idle: {len(idle.left)} messages were not acknowledged"
        for way in ("stopped", "ended"):
            oracle, _ = rig.filled(ROWS)
            arrived: list[str] = []
            place = rig.folder / way
            query = _stream(rig, penstock_spark, place, arrived, now=way == "ended")
            try:
                if way == "ended":
                    assert query.awaitTermination(120), "AvailableNow did not end within 120 s"
                else:
                    commits = place / "checkpoint" / "commits"
                    _arrived(query, arrived, ROWS)
                    last = len(list((place / "checkpoint" / "offsets").glob("[0-9]*"))) - 1
                    until((commits / str(last)).exists, within=60, why=f"batch {last} is committed")
            finally:
                query.stop()
            proved(oracle.judge(arrived))
            left = rig.waiting()
            assert left == [], f"{way}: {len(left)} messages were not acknowledged"

    @clause("QUE-20", "poison cannot loop for ever")
    def test_que_20_poison(self, rig: Rig, penstock_spark: SparkSession) -> None:
        """One message fails every batch it is in, and the query with it. Started again and again
        the stream gets rid of it within a dozen starts: it ends well, every other message has
        arrived, and the poison is set aside in the state folder, not lost."""
        from penstock.spark.queues import set_aside

        oracle, _ = rig.filled(ROWS)
        poison = oracle.ids[ROWS // 2]
        arrived: list[str] = []
        place = rig.folder / "poison"
        for _ in range(STARTS):
            if _ended_well(_stream(rig, penstock_spark, place, arrived, poison=poison)):
                break
        else:
            raise AssertionError(f"after {STARTS} starts the poison still fails the stream")
        aside = [rig.ids(table.to_batches()) for table in set_aside(str(place / "state"))]
        assert [poison] in aside, f"the poison is not set aside: {aside}"
        proved(oracle.judge([*arrived, poison], duplicates=None))
        assert rig.waiting() == [], "messages are left in the queue"


def _stream(
    rig: Rig,
    spark: SparkSession,
    place: Path,
    arrived: list[str],
    *,
    now: bool = True,
    poison: str | None = None,
) -> StreamingQuery:
    """A stream into a list; it fails as long as the poison is in a batch."""

    def take(batch: DataFrame, number: int) -> None:
        ids = rig.ids(batch.toArrow().to_batches())
        if poison in ids:
            raise RuntimeError("poison")
        arrived.extend(ids)

    options: dict[str, Any] = named(rig, "source")
    options |= {
        "checkpoint": str(place / "checkpoint"),
        "state": str(place / "state"),
        "max_rows": str(LIMIT),
        "poison": "3",
        "quiet": str(rig.case.quiet),
    }
    stream = spark.readStream.format(spark_format(rig)).options(**options).load()
    writing = stream.writeStream.option("checkpointLocation", options["checkpoint"])
    writing = writing.foreachBatch(take)
    return (writing.trigger(availableNow=True) if now else writing).start()


def _ended_well(query: StreamingQuery) -> bool:
    from pyspark.errors import StreamingQueryException

    try:
        assert query.awaitTermination(120), "the stream did not end within 120 s"
    except StreamingQueryException:
        return False
    finally:
        query.stop()
    return True


def _arrived(query: StreamingQuery, arrived: list[str], count: int) -> None:
    def enough() -> bool:
        assert query.isActive, f"the stream failed: {query.exception()}"
        return len(arrived) >= count

    until(enough, within=120, why=f"{count} messages have arrived")
