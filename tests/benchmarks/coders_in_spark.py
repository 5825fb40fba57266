"""Coders inside Spark, against Spark's own expressions.

Both sides read the same bytes from the same Parquet file and end in `noop`: the peer with Spark's
own reader and expression, ours with the decoding fused into a Python reader.
"""

import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from penstock.coders.avro.coder import AvroCoder
from penstock.coders.csv import CsvCoder
from penstock.coders.json import JsonCoder
from penstock.coders.protobuf.coder import ProtobufCoder
from penstock.coders.xml.coder import XmlCoder
from penstock.contracts import Coder
from penstock.contracts.envelope import conform
from tests.benchmarks.coder_records import BATCH, DDL, FLAT, SEED, avro, flat, records
from tests.benchmarks.measure import interleaved, rate, row
from tests.brokers.jars import fetch

SPARK_AVRO = ("org.apache.spark:spark-avro_2.13:4.1.1",)
TIMES = 8


@cache
def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("bench")
    builder = builder.config(
        "spark.jars", ",".join(str(j) for j in fetch(SPARK_AVRO, transitive=False))
    )
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # planning workers look nowhere else
    return builder.getOrCreate()


class _RowGroup(InputPartition):  # type: ignore[misc]
    def __init__(self, path: str, number: int) -> None:
        self.path, self.number = path, number


def fused(coder: Coder) -> type[DataSource]:
    """A reader of Parquet row groups that decodes what it reads."""
    schema = coder.schema()

    class Reader(DataSourceReader):  # type: ignore[misc]
        def __init__(self, path: str) -> None:
            self.path = path

        def partitions(self) -> list[InputPartition]:
            groups = pq.ParquetFile(self.path).num_row_groups
            return [_RowGroup(self.path, number) for number in range(groups)]

        def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
            file = pq.ParquetFile(partition.path)
            for batch in file.iter_batches(BATCH, row_groups=[partition.number]):
                done = coder.decode(batch.column(0))
                assert not done.errors, done.errors[:3]
                yield conform(done.rows, schema)

    class Fused(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "fused"

        def schema(self) -> Any:
            from pyspark.sql.pandas.types import from_arrow_schema

            return from_arrow_schema(schema)

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(self.options["path"])

    return Fused


def in_spark(
    name: str, coder: Coder, values: pa.Array, peer: Callable[[DataFrame], DataFrame], **more: Any
) -> None:
    spark = session()
    spark.dataSource.register(fused(coder))
    with tempfile.TemporaryDirectory() as folder:

        def both(file: str, held: pa.Array) -> tuple[DataFrame, DataFrame]:
            path = str(Path(folder, file))
            pq.write_table(pa.table({"value": held}), path, row_group_size=len(held) // 4 + 1)
            ours = spark.read.format("fused").option("path", path).load()
            return ours, peer(spark.read.parquet(path))

        _same(*both("once.parquet", values), name)
        # Planning a job takes both sides a moment that should not decide.
        values = pa.concat_arrays([values] * TIMES)
        frame, other = both("often.parquet", values)

        def run(each: DataFrame) -> float:
            write = each.write.format("noop").mode("overwrite").save
            return rate(len(values), write)

        pair = interleaved(lambda: run(frame), lambda: run(other), pairs=3, warm=1)
    row(name, pair, "thousand records/s", **more)


def _same(ours: DataFrame, peer: DataFrame, name: str) -> None:
    """Both sides must say the same, or the race means nothing."""
    first = sorted(map(str, ours.limit(200).collect()))
    found = set(map(str, peer.collect()))
    missing = [each for each in first if each not in found]
    assert not missing, f"{name}: the peer does not have {missing[0]}"


def avro_spark(name: str) -> None:
    from pyspark.sql.avro.functions import from_avro

    schema = json.dumps(FLAT)
    in_spark(
        name,
        AvroCoder(schema=FLAT),
        avro(FLAT, records(flat, 300_000)),
        lambda frame: frame.select(from_avro("value", schema).alias("d")).select("d.*"),
    )


def json_spark(name: str) -> None:
    from pyspark.sql.functions import col, from_json

    texts = [json.dumps({**each, "at": each["at"].isoformat()}) for each in records(flat, 200_000)]
    in_spark(
        name,
        JsonCoder(schema=DDL),
        pa.array([text.encode() for text in texts], pa.binary()),
        lambda frame: frame.select(from_json(col("value").cast("string"), DDL).alias("d")).select(
            "d.*"
        ),
    )


def csv_spark(name: str) -> None:
    from pyspark.sql.functions import col, from_csv

    coder = CsvCoder(schema=DDL)
    rows = pa.RecordBatch.from_pylist(records(flat, 200_000), schema=coder.schema())
    in_spark(
        name,
        coder,
        coder.encode(rows).values,
        lambda frame: frame.select(from_csv(col("value").cast("string"), DDL).alias("d")).select(
            "d.*"
        ),
    )


def xml_spark(name: str) -> None:
    from pyspark.sql.functions import col, from_xml

    ddl = f"{DDL}, line ARRAY<STRUCT<sku: STRING, qty: BIGINT, price: DOUBLE>>"
    coder = XmlCoder(schema=ddl)
    pick = random.Random(SEED)
    objects = []
    for number in range(60_000):
        lines = [{"sku": f"s{k}", "qty": k, "price": k + 0.5} for k in range(1 + pick.randrange(3))]
        objects.append({**flat(number, pick), "line": lines})
    rows = pa.RecordBatch.from_pylist(objects, schema=coder.schema())
    in_spark(
        name,
        coder,
        coder.encode(rows).values,
        lambda frame: frame.select(
            from_xml(col("value").cast("string"), ddl, {"rowTag": "row"}).alias("d")
        ).select("d.*"),
    )


Loop = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def flat_messages(count: int) -> tuple[Coder, pa.Array, Loop]:
    """The coder of flat messages, so many of them, and the loop over them that one would write."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    files = _flat_proto(descriptor_pb2)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(files.file[0])
    cls = message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Flat"))
    values = []
    for each in records(flat, count):
        micros = int(each.pop("at").timestamp() * 1_000_000)
        values.append(cls(**each, at=micros).SerializeToString())
    coder = ProtobufCoder(schema=files.SerializeToString(), message="bench.Flat")
    data = files.SerializeToString()
    names = coder.schema().names
    columns = coder.schema()

    def loop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = descriptor_pool.DescriptorPool()
        mine.Add(descriptor_pb2.FileDescriptorSet.FromString(data).file[0])
        made = message_factory.GetMessageClass(mine.FindMessageTypeByName("bench.Flat"))
        for batch in batches:
            found = []
            for value in batch.column(0).to_pylist():
                message = made.FromString(value)
                each = {n: getattr(message, n) for n in names}
                each["city"] = message.city if message.HasField("city") else None
                found.append(each)
            yield pa.RecordBatch.from_pylist(found, schema=columns)

    return coder, pa.array(values, pa.binary()), loop


def protobuf_spark(name: str) -> None:
    """Spark's Protobuf jar is not to be had for this Spark: the peer is a loop in Python."""
    coder, values, loop = flat_messages(100_000)
    ddl = DDL.replace("at TIMESTAMP", "at BIGINT")
    in_spark(
        name,
        coder,
        values,
        lambda frame: frame.mapInArrow(loop, ddl),
        against="a loop in Python (mapInArrow)",
    )


def _flat_proto(descriptors: Any) -> Any:
    files = descriptors.FileDescriptorSet()
    file = files.file.add(name="flat.proto", package="bench", syntax="proto3")
    message = file.message_type.add(name="Flat")
    kinds = [("id", 3), ("name", 9), ("score", 1), ("active", 8), ("at", 3)]
    for number, (name, kind) in enumerate(kinds, 1):
        message.field.add(name=name, number=number, type=kind, label=1)
    message.oneof_decl.add(name="_city")
    message.field.add(name="city", number=6, type=9, label=1, proto3_optional=True, oneof_index=0)
    return files


ROWS = {
    "avro-decode-spark": avro_spark,
    "json-decode-spark": json_spark,
    "xml-decode-spark": xml_spark,
    "csv-decode-spark": csv_spark,
    "protobuf-decode-spark": protobuf_spark,
}
