"""Clauses that go through plain Spark, in a session that the whole run shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import registry
from penstock.conformance.clauses import clause
from penstock.conformance.ledger import attempts
from penstock.conformance.records import envelopes, made
from penstock.conformance.rig import Rig, proved
from penstock.conformance.shapes import where

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 240


class SparkClauses:
    """What a user of plain Spark sees."""

    @clause("SHP-05", "plain Spark finds it by name")
    def test_shp_05_discovery(self, rig: Rig, penstock_spark: SparkSession) -> None:
        """Installed, the format `penstock.NAME` works in any session, with no registration: Spark
        finds the module `pyspark_penstock_NAME`, and an option it does not know is refused by
        name, which shows that the connector itself was reached."""
        name = rig.connector.name
        if name not in registry.names("connectors"):
            pytest.skip(f"SHP-05: {name} is not installed, it is tested where it is defined")
        side = "source" if rig.connector.source is not None else "sink"
        options = {**rig.strings(side), "surely_unknown": "1"}
        with pytest.raises(Exception, match="surely_unknown"):
            _touch(penstock_spark, side, f"penstock.{name}", options)

    @clause("SRC-17", "AvailableNow drains and ends")
    def test_src_17_available_now(self, rig: Rig, penstock_spark: SparkSession) -> None:
        """A stream with a row limit and the trigger AvailableNow takes what is there in several
        bounded batches and ends by itself; each record comes once."""
        oracle, _ = rig.filled(rig.few(ROWS), rig.splits)
        limit = max(len(oracle.ids) // 3, rig.case.step)
        path = rig.folder / "ledger"
        options = {**named(rig, "source"), "max_rows": str(limit)}
        options["state"] = str(rig.folder / "stream-state")
        stream = penstock_spark.readStream.format(spark_format(rig)).options(**options).load()
        writing = stream.writeStream.format("penstock.ledger").option("path", str(path))
        query = (
            writing.option("checkpointLocation", str(rig.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(120), "AvailableNow did not end within 120 s"
        finally:
            query.stop()
        found = [each for each in attempts(path) if each.finished]
        sizes: dict[int, int] = {}
        for each in found:
            sizes[each.batch] = sizes.get(each.batch, 0) + each.rows.num_rows
        proved(oracle.judge([id for a in found for id in rig.ids(a.rows.to_batches())]))
        assert max(sizes.values()) <= max(limit, rig.case.step), f"limit {limit}, batches {sizes}"
        assert len(sizes) > 1, "one batch for all: the limit was ignored"

    @clause("SRC-24", "Spark reads it in batch")
    def test_src_24_batch(self, rig: Rig, penstock_spark: SparkSession) -> None:
        """`spark.read` gives a DataFrame with every record, in the declared columns."""
        oracle, _ = rig.filled(ROWS, rig.splits)
        frame = penstock_spark.read.format(spark_format(rig)).options(**named(rig, "source")).load()
        assert frame.columns == rig.replayable().schema().names
        proved(oracle.judge(rig.ids(frame.toArrow().to_batches())))

    @clause("QUE-17", "Spark drains it in batch, if told so")
    def test_que_17_batch(self, rig: Rig, penstock_spark: SparkSession) -> None:
        """`spark.read` with `drain=true` gives every waiting message and leaves the queue empty;
        without it the read is refused, since it would destroy."""
        oracle, _ = rig.filled(ROWS)
        reading = penstock_spark.read.format(spark_format(rig)).options(**named(rig, "source"))
        with pytest.raises(Exception, match="drain=true"):
            reading.load().collect()
        options = {"drain": "true", "quiet": str(rig.case.quiet)}
        frame = reading.options(**options).load()
        proved(oracle.judge(rig.ids(frame.toArrow().to_batches())))
        assert rig.waiting() == [], "messages are left after a drain"

    @clause("SNK-17", "Spark writes it in batch")
    def test_snk_17_batch(self, rig: Rig, penstock_spark: SparkSession) -> None:
        """`df.write` with several tasks puts every row into the place, once; a second write
        appends."""
        both: list[str] = []
        for _ in range(2):
            oracle = rig.oracle(ROWS)
            table = envelopes(made(oracle)).to_pandas()[["key", "value", "event_time", "id"]]
            frame = penstock_spark.createDataFrame(
                table, "key binary, value binary, event_time timestamp, id string"
            ).repartition(3)
            writing = frame.write.format(spark_format(rig)).options(**named(rig, "sink"))
            writing.mode("append").save()
            both += oracle.ids
            proved(rig.found(oracle, among=True))
        there = rig.stored()
        assert sorted(there) == sorted(both), f"{len(both)} were written, {len(there)} are there"


def _touch(spark: SparkSession, side: str, format: str, options: dict[str, str]) -> None:
    if side == "source":
        spark.read.format(format).options(**options).load().printSchema()
    else:
        rows = spark.range(1).selectExpr("cast('x' as binary) value")
        rows.write.format(format).options(**options).mode("append").save()


def _installed(rig: Rig) -> bool:
    return rig.connector.name in registry.names("connectors")


def spark_format(rig: Rig) -> str:
    return f"penstock.{rig.connector.name}" if _installed(rig) else "penstock.under-test"


def named(rig: Rig, side: str) -> dict[str, Any]:
    options: dict[str, Any] = dict(rig.strings(side))
    if not _installed(rig):
        options["connector"] = where(rig)
    return options
