"""The peer: the same records from a DataSource written by hand, with nothing of Penstock's.

Run as a program it is the peer of `penstock run`: the same pipeline as a plain PySpark script.
"""

import os
import tempfile

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

SCHEMA = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, "
    "event_time timestamp, id string, stamp struct<origin: string, part: string, position: bigint>"
)


def records(start, end):
    """The generator's own code that makes records: only the binding around it differs."""
    from penstock.connectors.generator import GeneratorSource, Range

    return GeneratorSource(rows=end).read(Range(start, end))


class Piece(InputPartition):
    def __init__(self, start, end):
        self.start = start
        self.end = end


def halves(start, end):
    middle = (start + end) // 2
    return [Piece(a, b) for a, b in ((start, middle), (middle, end)) if a < b]


class BareReader(DataSourceReader):
    def __init__(self, rows):
        self.rows = rows

    def partitions(self):
        return halves(0, self.rows)

    def read(self, partition):
        return records(partition.start, partition.end)


class BareStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, rows, max_rows):
        self.rows = rows
        self.max_rows = max_rows

    def initialOffset(self):  # noqa: N802
        return {"n": 0}

    def latestOffset(self, start, limit):  # noqa: N802
        return {"n": min(start["n"] + self.max_rows, self.rows)}

    def getDefaultReadLimit(self):  # noqa: N802
        return ReadMaxRows(self.max_rows)

    def prepareForTriggerAvailableNow(self):  # noqa: N802
        pass

    def partitions(self, start, end):
        return halves(start["n"], end["n"])

    def read(self, partition):
        return records(partition.start, partition.end)


class BareGenerator(DataSource):
    @classmethod
    def name(cls):
        return "bare"

    def schema(self):
        return SCHEMA

    def reader(self, schema):
        return BareReader(int(self.options["rows"]))

    def streamReader(self, schema):  # noqa: N802
        return BareStreamReader(int(self.options["rows"]), int(self.options.get("max_rows", 10**9)))


def main():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{os.environ.get('BARE_SETTINGS', '')} pyspark-shell"
    spark = SparkSession.builder.master("local[*]").getOrCreate()
    spark.dataSource.register(BareGenerator)
    with tempfile.TemporaryDirectory() as folder:

        def show(frame, _):
            for record in frame.limit(1).collect():
                print(bytes(record.value).decode(), flush=True)

        stream = spark.readStream.format("bare").option("rows", 1000).load()
        writer = stream.writeStream.foreachBatch(show).option("checkpointLocation", folder)
        writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
