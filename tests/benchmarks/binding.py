"""The generator through Penstock, against the same generator in a bare, hand-written DataSource."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.spark.session import DEFAULTS
from tests.benchmarks.bare import BareGenerator
from tests.benchmarks.measure import interleaved, row, seconds

ROWS = 6_000_000
BATCH_ROWS = 1_000
BATCHES = 60


def main(wanted: list[str]) -> None:
    rows = {
        "cold-start": cold_start,
        "read-batch": read_batch,
        "read-stream": read_stream,
        "batch-ms": batch_ms,
    }
    for name in wanted or rows:
        rows[name]()


def _session() -> SparkSession:
    from penstock.spark.session import session

    spark = session(master="local[2]", name="bench")
    spark.dataSource.register(BareGenerator)
    return spark


def read_batch() -> None:
    spark = _session()

    def rate(format: str) -> float:
        frame = spark.read.format(format).option("rows", ROWS).load()
        return ROWS / seconds(lambda: frame.write.format("noop").mode("overwrite").save())

    pair = interleaved(lambda: rate("penstock.generator"), lambda: rate("bare"))
    row("read-batch", pair, "rows/s")


def _stream(spark: SparkSession, format: str, rows: int, batch: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        stream = spark.readStream.format(format).options(rows=rows, max_rows=batch).load()
        writer = stream.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        progress = query.recentProgress
    # The first batch pays for starting planners and workers.
    return sum(p["batchDuration"] for p in progress[1:]) / (len(progress) - 1)


def read_stream() -> None:
    spark = _session()
    batch = ROWS // 4

    def rate(format: str) -> float:
        return batch / (_stream(spark, format, ROWS, batch) / 1000)

    pair = interleaved(lambda: rate("penstock.generator"), lambda: rate("bare"))
    row("read-stream", pair, "rows/s")


def batch_ms() -> None:
    spark = _session()
    rows = BATCH_ROWS * BATCHES

    def ms(format: str) -> float:
        return _stream(spark, format, rows, BATCH_ROWS)

    pair = interleaved(lambda: ms("penstock.generator"), lambda: ms("bare"))
    row("batch-ms", pair, "ms per batch of 1,000 rows")


def cold_start() -> None:
    """From the command to the first record out; a whole process each time."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "first.yaml")
        file.write_text(
            "name: first\nsource: {generator: {rows: 1000}}\nsink: {stdout: {limit: 1}}\n"
        )
        penstock = [str(Path(sys.executable).with_name("penstock")), "run", str(file)]
        bare = [sys.executable, "-m", "tests.benchmarks.bare"]
        pair = interleaved(lambda: _first_line(penstock), lambda: _first_line(bare))
    row("cold-start", pair, "s to the first record")


def _first_line(command: list[str]) -> float:
    settings = " ".join(f"--conf '{key}={value}'" for key, value in DEFAULTS.items())
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "BARE_SETTINGS": settings}
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    ) as process:
        assert process.stdout is not None
        # What workers print, Spark hands on to standard error.
        for line in process.stdout:
            if '"customer"' in line:
                taken = time.perf_counter() - began
                break
        else:
            raise RuntimeError(f"no record came from {command}")
        process.communicate()
    return taken
