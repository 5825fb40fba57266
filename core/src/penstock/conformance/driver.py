"""The driver program that the suite kills: one stream, from here to there.

What it does comes as JSON in an environment variable, not in a file: what the program leaves
behind is searched for secrets.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from penstock.conformance.kill import stand_by
from penstock.conformance.under_test import Ledger, UnderTest
from penstock.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPEC = "PENSTOCK_CONFORMANCE_DRIVER"
PAUSE = 1


def main() -> None:
    spec = json.loads(os.environ.pop(SPEC))
    events = spec["events"]
    os.makedirs(events, exist_ok=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        # It is searched for secrets, which compressed bytes would hide.
        "spark.eventLog.compress": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    spark = session(spec.get("master", "local[2]"), "conformance", **settings)
    spark.dataSource.register(UnderTest)
    spark.dataSource.register(Ledger)
    _warm(spark)
    stand_by()
    read, write = spec["read"], spec["write"]
    stream = spark.readStream.format(read["format"]).options(**read["options"]).load()
    stream.explain(extended=True)
    writing = stream.writeStream.format(write["format"]).options(**write["options"])
    writing = writing.option("checkpointLocation", spec["checkpoint"])
    if not spec.get("endless"):
        writing = writing.trigger(availableNow=True)
    query = writing.start()
    while not query.awaitTermination(PAUSE):
        _say(query.lastProgress or "nothing yet")
    for progress in query.recentProgress:
        _say(progress)
    spark.stop()


def _warm(spark: SparkSession) -> None:
    """Start what every stream needs, while the life before this one still works."""
    rows = spark.read.format("penstock.generator").option("rows", "1").load()
    rows.write.format("noop").mode("overwrite").save()


def _say(progress: object) -> None:
    os.write(1, f"{progress}\n".encode())


if __name__ == "__main__":
    main()
