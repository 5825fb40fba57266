"""The kill harness on real Spark: points reached in the stream reader and in a worker."""

import pytest

from penstock.conformance.kill import Driver

pytestmark = [pytest.mark.faults, pytest.mark.spark]

# Five batches of one number each, appended to a file by the driver, over a checkpoint.
SCRIPT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

folder = Path(__file__).parent

class Numbers(DataSource):
    @classmethod
    def name(cls):
        return "numbers"
    def schema(self):
        return "n int"
    def streamReader(self, schema):
        return Reader()

class Reader(DataSourceStreamReader):
    def initialOffset(self):
        return {"n": 0}
    def latestOffset(self, start, limit=None):
        from penstock.contracts.points import reached
        reached("in-reader")
        return {"n": min(5, start["n"] + 1)}
    def partitions(self, start, end):
        return [InputPartition(n) for n in range(start["n"], end["n"])]
    def read(self, partition):
        from penstock.contracts.points import reached
        reached("in-worker")
        yield (partition.value,)

def drain(rows, batch):
    from penstock.contracts.points import reached
    numbers = [row.n for row in rows.collect()]
    reached("in-driver", batch=batch)
    with (folder / "out").open("a") as out:
        out.writelines(f"{batch} {n}\\n" for n in numbers)
    if 4 in numbers:
        (folder / "finished").touch()

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
spark.dataSource.register(Numbers)
query = (
    spark.readStream.format("numbers").load().writeStream.foreachBatch(drain)
    .option("checkpointLocation", str(folder / "checkpoint")).start()
)
while not (folder / "finished").exists() and not query.awaitTermination(0.2):
    pass
query.stop()
spark.stop()
"""


@pytest.mark.parametrize("strike", ["in-reader@3", "in-worker@3", "in-worker@2:worker"])
def test_a_strike_in_any_process_takes_all_and_the_next_life_finishes(tmp_path, strike):
    script = tmp_path / "driver.py"
    script.write_text(SCRIPT)
    driver = Driver([script], folder=tmp_path / "run", strikes=[strike])
    driver.finish(within=180)

    assert driver.lives == 2
    [struck] = driver.struck()
    assert struck["strike"].startswith(strike)
    assert driver.pids() == []
    numbers = [int(line.split()[1]) for line in (tmp_path / "out").read_text().splitlines()]
    assert numbers == [0, 1, 2, 3, 4]
