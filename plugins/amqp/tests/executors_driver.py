"""A driver of a small cluster: one query receives on its executors, the other reads the spool."""

import json
import sys
from pathlib import Path

from penstock.spark.session import session


def main(folder: Path, url: str, queue: str) -> None:
    spark = session(master="local-cluster[2,1,1024]", name="executors")
    shared = {
        "url": url,
        "queue": queue,
        "delivery": "pessimistic",
        "unique_ids": "true",
        "state": str(folder / "spool"),
        "max_rows": "500",
    }

    def stream(part: str, **options: str):
        reading = spark.readStream.format("penstock.amqp").options(**shared, **options)
        writing = reading.load().writeStream.trigger(availableNow=True)
        return writing.option("checkpointLocation", str(folder / part))

    filling = stream("fill", spool="fill", receivers="2")
    filling.format("noop").start().awaitTermination()
    receivers = {path.name.split("-")[1] for path in (folder / "spool" / "inbox").iterdir()}
    reading = stream("read", spool="read", checkpoint=str(folder / "read"))
    seen: list[str] = []

    def keep(rows, number):
        seen.extend(row.id for row in rows.select("id").collect())

    reading.foreachBatch(keep).start().awaitTermination()
    (folder / "seen.json").write_text(json.dumps({"ids": seen, "receivers": sorted(receivers)}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
