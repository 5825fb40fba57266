"""The driver program that the suite kills: one stream, from here to there.

What it does comes as JSON in an environment variable, not in a file: what the program leaves
behind is searched for secrets.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from penstock.conformance.kill import begun, stand_by
from penstock.conformance.under_test import FORMAT, Ledger, UnderTest
from penstock.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPEC = "PENSTOCK_CONFORMANCE_DRIVER"
GENERATOR = "penstock.connectors.listed:generator"
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
        # A life is over before compiled plans would repay their compiler.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    spark = session(spec.get("master", "local[2]"), "conformance", **settings)
    spark.dataSource.register(UnderTest)
    spark.dataSource.register(Ledger)
    if not begun():
        _warm(spark)
    stand_by()
    read, write = spec["read"], spec["write"]
    stream = spark.readStream.format(read["format"]).options(**read["options"]).load()
    writing = stream.writeStream.format(write["format"]).options(**write["options"])
    writing = writing.option("checkpointLocation", spec["checkpoint"])
    if spec.get("endless"):
        _explain(stream)
    else:
        writing = writing.trigger(availableNow=True)
    query = writing.start()
    while not query.awaitTermination(PAUSE):
        _say(query.lastProgress or "nothing yet")
    for progress in query.recentProgress:
        _say(progress)
    # Late, since Spark is warm by now: a life that is killed need not show its plan.
    _explain(stream)
    spark.stop()


def _warm(spark: SparkSession) -> None:
    """Start what every stream needs, while the life before this one still works.

    By the format that the stream uses: Spark keeps Python processes apart by how their source was
    registered.
    """
    rows = spark.read.format(FORMAT).options(connector=GENERATOR, rows="2").load()
    # Each of its two tasks has a process that reads and one that writes.
    through = rows.mapInArrow(lambda batches: batches, rows.schema)
    through.write.format("noop").mode("overwrite").save()


def _explain(stream: DataFrame) -> None:
    stream.explain(extended=True)
    sys.stdout.flush()  # what is left in a buffer dies with the driver


def _say(progress: object) -> None:
    os.write(1, f"{progress}\n".encode())


if __name__ == "__main__":
    main()
