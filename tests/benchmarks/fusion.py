"""Fused Python stages against the same functions on plain Spark, from a source to a sink.

`memory` has no peer: it asks whether what the Python workers hold stays the same over 100 million
rows. `memory=5000000` is the same over 5 million, for machines and days with less time.
"""

import json
import os
import tempfile
import time
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.functions import from_json, struct, udf

import penstock as pen
from penstock.contracts import Connector, Promise, Sink, option
from penstock.contracts import connector as configured
from penstock.registry import lookup
from tests.benchmarks import discard
from tests.benchmarks.bare import BareGenerator
from tests.benchmarks.measure import interleaved, row, seconds

ROWS = 4_000_000
SCHEMA = "id long, customer string, total double"


def main(wanted: list[str]) -> None:
    rows = {"map-batches": map_batches, "per-record": per_record, "memory": memory}
    for name in wanted or ("map-batches", "per-record", "memory=5000000"):
        row, _, count = name.partition("=")
        rows[row](*([int(count)] if count else []))


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


class SlowWriter(discard.DiscardWriter):
    def __init__(self, pause):
        super().__init__()
        self.pause = pause

    def write(self, rows):
        super().write(rows)
        time.sleep(self.pause * rows.num_rows / 20_000)


@configured
class SlowSink(Sink):
    """Takes rows more slowly than the source makes them."""

    pause: float = option(default=0.02, doc="Seconds for 20,000 rows.")

    def promise(self):
        return Promise(replay="idempotent", atomic="batch")

    def open(self, batch, partition, attempt, schema):
        return SlowWriter(self.pause)


slow = Connector(name="slow", sink=SlowSink)


def memory(rows: int = 100_000_000) -> None:
    """One run; the peak of the largest Python worker after a tenth of the rows, and at the end."""
    spark, early = _session(), rows // 10
    point = EntryPoint("slow", f"{__name__}:slow", "penstock.connectors")
    lookup._entries()["connectors"]["slow"] = [lookup.Entry("slow", "bench", "0", point)]
    flow = (
        pen.pipeline("memory")
        .source("generator", rows=rows)
        .limits(max_rows=max(early // 5, 100_000))
        .map_batches(upper)
        .sink("slow")
    )
    peaks: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        handle = flow.run(folder, spark=spark, wait=False)
        while not handle.wait(0.2):
            done = handle.counts().get("slow")
            if done is not None and done.rows_in >= early and not peaks:
                peaks[f"{done.rows_in:,}"] = peak_of_workers()
        took = time.perf_counter() - began
        done = handle.counts()["slow"].rows_in
        peaks[f"{done:,}"] = peak_of_workers()
    first, last = peaks.values()
    figure = {
        "bench": "memory",
        "rows": done,
        "rows/s": round(done / took),
        "peak MiB of a worker": {name: round(peak, 1) for name, peak in peaks.items()},
        "ratio": round(last / first, 3),
    }
    print(json.dumps(figure), flush=True)


def peak_of_workers() -> float:
    """The most memory any living Python child of this process's JVM ever held, in MiB."""
    parents, peaks = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(
                line.split(":", 1) for line in (folder / "status").read_text().splitlines()
            )
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(folder.name)] = int(status["PPid"])
        if "python" in status["Name"] and "VmHWM" in status:
            peaks[int(folder.name)] = int(status["VmHWM"].split()[0]) / 1024

    def ours(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == os.getpid():
                return True
        return False

    return max(peak for pid, peak in peaks.items() if ours(pid))
