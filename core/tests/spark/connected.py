"""What a Connect client sees: run in a process of its own, prints JSON."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import penstock as pen
from penstock.contracts.errors import PenstockError


def main(folder: Path) -> dict:
    (folder / "in").mkdir()
    (folder / "in" / "a").write_text('{"id": 1}\n{"id": 2}\n')
    options = {"path": str(folder / "in")}
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    saw = {"client": type(spark).__module__}

    frame = spark.read.format("penstock.localfile").options(**options).load()
    saw["read"] = sorted(bytes(row.value).decode() for row in frame.collect())
    frame.write.format("penstock.localfile").mode("append").option("path", folder / "out").save()
    saw["written"] = lines(folder / "out")

    stream = spark.readStream.format("penstock.localfile").options(**options)
    stream = stream.option("state", folder / "state").load()
    writing = stream.writeStream.format("penstock.localfile").option("path", folder / "streamed")
    writing = writing.option("checkpointLocation", folder / "checkpoint")
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination(120)
    saw["streamed"] = lines(folder / "streamed")

    decoded = pen.decode(pen.read(spark, "localfile", **options), "json", schema="id long")
    saw["decoded"] = sorted(row.id for row in decoded.collect())

    try:
        spark.read.format("penstock.localfile").option("pth", "x").load().collect()
    except Exception as error:
        saw["unknown"] = str(error)
    flow = pen.pipeline("p").source("generator", rows=1).sink("stdout")
    try:
        flow.run(spark=spark)
    except PenstockError as error:
        saw["pipeline"] = str(error)
    spark.stop()
    return saw


def lines(folder: Path) -> list[str]:
    files = [file for file in folder.iterdir() if file.is_file() and file.name[0] != "."]
    return sorted(line for file in files for line in file.read_text().splitlines())


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))  # noqa: T201
