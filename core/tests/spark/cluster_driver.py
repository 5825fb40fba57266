"""A driver of a small cluster: executors are processes of their own, so nothing can be shared."""

import sys
from pathlib import Path

import penstock as pen
from penstock.spark.session import session


def main(folder: Path) -> None:
    spark = session(master="local-cluster[2,1,1024]", name="cluster")
    batch = spark.read.format("penstock.generator").options(rows=1000, format="text").load()
    batch.write.format("penstock.localfile").mode("append").save(str(folder / "batch"))
    stream = (
        spark.readStream.format("penstock.generator")
        .options(rows=1000, max_rows=500, format="text")
        .load()
    )
    query = (
        stream.writeStream.format("penstock.localfile")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "stream"))
    )
    query.awaitTermination()
    (
        pen.pipeline("cluster")
        .source("generator", rows=1000)
        .decode("json", schema="id long, total double")
        .map(lambda order: {**order, "total": 1.0}, schema="id long, total double", name="one")
        .sink("localfile", path=str(folder / "pipeline"))
        .run(checkpoint=folder / "state", spark=spark)
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
