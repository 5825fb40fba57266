"""Fused Python stages against the same functions on plain Spark, from a source to a sink."""

import tempfile

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.functions import from_json, struct, udf

import penstock as pen
from tests.benchmarks import discard
from tests.benchmarks.bare import BareGenerator
from tests.benchmarks.measure import interleaved, row, seconds

ROWS = 2_000_000
SCHEMA = "id long, customer string, total double"


def main(wanted: list[str]) -> None:
    rows = {"map-batches": map_batches, "per-record": per_record}
    for name in wanted or rows:
        rows[name]()


def _session() -> SparkSession:
    from penstock.spark.session import session

    spark = session(master="local[2]", name="bench")
    spark.dataSource.register(BareGenerator)
    spark.dataSource.register(discard.BareDiscard)
    discard.install()
    return spark


def _ours(flow: pen.Flow, spark: SparkSession, rows: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return rows / seconds(lambda: flow.run(folder, spark=spark))


def _peer(frame: object, rows: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        writer = frame.writeStream.format("bare_discard")  # type: ignore[attr-defined]
        writer = writer.option("checkpointLocation", folder).trigger(availableNow=True)
        return rows / seconds(lambda: writer.start().awaitTermination())


def _changed(batch: pa.RecordBatch, column: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index("value"), "value", column)


def upper(batch: pa.RecordBatch) -> pa.RecordBatch:
    return _changed(batch, pc.ascii_upper(batch["value"].cast(pa.string())).cast(pa.binary()))


def marked(batch: pa.RecordBatch) -> pa.RecordBatch:
    return _changed(batch, pc.binary_join_element_wise(batch["value"], b"!", b""))


def trimmed(batch: pa.RecordBatch) -> pa.RecordBatch:
    return _changed(batch, pc.binary_replace_slice(batch["value"], 0, 1, b""))


def map_batches() -> None:
    """Three light functions over Arrow batches."""
    spark = _session()
    flow = (
        pen.pipeline("fused")
        .source("generator", rows=ROWS)
        .map_batches(upper)
        .map_batches(marked)
        .map_batches(trimmed)
        .sink("discard")
    )

    def plain() -> float:
        frame = spark.readStream.format("bare").option("rows", ROWS).load()
        for function in (upper, marked, trimmed):
            frame = frame.mapInArrow(_each(function), frame.schema)
        return _peer(frame, ROWS)

    pair = interleaved(lambda: _ours(flow, spark, ROWS), plain)
    row("map-batches", pair, "rows/s")


def _each(function):
    def over(batches):
        for batch in batches:
            yield function(batch)

    return over


def enrich(record):
    return {
        "id": record["id"],
        "customer": record["customer"].upper(),
        "total": record["total"] * 1.25 if record["id"] % 2 else record["total"],
    }


def per_record() -> None:
    """One function over one record, decoded from JSON; the peer is the faster of Spark's two."""
    spark = _session()
    rows = ROWS // 4
    flow = (
        pen.pipeline("records")
        .source("generator", rows=rows)
        .decode("json", schema=SCHEMA)
        .map(enrich)
        .sink("discard")
    )

    def decoded():
        frame = spark.readStream.format("bare").option("rows", rows).load()
        parsed = from_json(frame.value.cast("string"), SCHEMA)
        return frame.select(parsed.alias("record")).select("record.*")

    def function_of_a_row() -> float:
        function = udf(enrich, SCHEMA)
        return _peer(decoded().select(function(struct("*")).alias("r")).select("r.*"), rows)

    def pandas() -> float:
        return _peer(decoded().mapInPandas(_records, SCHEMA), rows)

    pairs = {
        name: interleaved(lambda: _ours(flow, spark, rows), peer, pairs=3)
        for name, peer in (("udf", function_of_a_row), ("mapInPandas", pandas))
    }
    slower = {name: round(pair.peer, 1) for name, pair in pairs.items()}
    best = min(pairs.values(), key=lambda pair: pair.ratio)
    row("per-record", best, "rows/s", peers=slower)


def _records(frames):
    import pandas as pd

    for frame in frames:
        yield pd.DataFrame([enrich(r) for r in frame.to_dict("records")])
