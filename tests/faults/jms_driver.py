"""The driver that the faults kill: one JMS queue into another, until nothing is left."""

import json
import os

from penstock.spark.session import session


def main() -> None:
    given = json.loads(os.environ["PENSTOCK_JMS_DRIVER"])
    spark = session("local[2]", "faults")
    reading = spark.readStream.format("penstock.jms").options(**given["read"]).load()
    writing = reading.select("value").writeStream.format("penstock.jms").options(**given["write"])
    query = writing.option("checkpointLocation", given["read"]["checkpoint"])
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
