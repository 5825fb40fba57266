"""Spark's own Avro as an independent witness, where its jar can be had."""

import datetime
import decimal
import io
import json
import subprocess
import sys
import textwrap

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.coders.avro.coder import AvroCoder
from tests.brokers.jars import fetch

pytestmark = [pytest.mark.spark, pytest.mark.server]

SPARK_AVRO = ("org.apache.spark:spark-avro_2.13:4.1.1",)
SCHEMA = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "score", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "total",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        },
        {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["NEW", "PAID"]}},
        {"name": "raw", "type": "bytes"},
        {"name": "counts", "type": {"type": "array", "items": "int"}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
    ],
}

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro, to_avro

folder, jars, schema = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]").config("spark.jars", jars)
    .config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC").getOrCreate()
)
values = spark.read.parquet(f"{folder}/values.parquet")
read = values.select(from_avro("value", schema).alias("d")).select("d.*")
read.coalesce(1).write.parquet(f"{folder}/decoded")
from pyspark.sql.functions import struct
read.select(to_avro(struct("*"), schema).alias("value")).coalesce(1).write.parquet(
    f"{folder}/encoded"
)
spark.read.format("avro").load(f"{folder}/ours.avro").coalesce(1).write.parquet(
    f"{folder}/container"
)
spark.stop()
"""


def rows(count):
    return [
        {
            "id": n,
            "name": None if n % 3 == 0 else f"user {n}",
            "score": n / 7,
            "at": datetime.datetime(2026, 1, 1, 0, 0, n % 60, n, tzinfo=datetime.UTC),
            "day": datetime.date(2026, 1, 1 + n % 28),
            "total": decimal.Decimal(n * 37 - 500).scaleb(-2),
            "kind": ["NEW", "PAID"][n % 2],
            "raw": bytes([n % 256]) * (n % 5),
            "counts": list(range(n % 4)),
            "tags": {f"k{k}": f"v{n}" for k in range(n % 3)},
        }
        for n in range(count)
    ]


def test_spark_reads_what_we_encode_and_we_read_what_spark_encodes(tmp_path):
    coder = AvroCoder(schema=SCHEMA)
    given = rows(500)
    columns = pa.RecordBatch.from_pylist(
        [{**each, "tags": list(each["tags"].items())} for each in given], schema=coder.schema()
    )
    encoded = coder.encode(columns)
    assert encoded.errors == ()
    pq.write_table(pa.table({"value": encoded.values}), tmp_path / "values.parquet")
    container = AvroCoder(schema=SCHEMA, framing="container").encode(columns)
    (tmp_path / "ours.avro").write_bytes(container.values[0].as_py())
    jars = ",".join(str(jar) for jar in fetch(SPARK_AVRO, transitive=False))
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(PROGRAM),
            str(tmp_path),
            jars,
            json.dumps(SCHEMA),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    decoded = pq.read_table(tmp_path / "decoded").cast(coder.schema())
    assert decoded.to_pylist() == columns.to_pylist()
    theirs = pq.read_table(tmp_path / "encoded").column("value").combine_chunks()
    assert coder.decode(theirs).rows.to_pylist() == columns.to_pylist()
    parsed = fastavro.parse_schema(SCHEMA)
    assert [
        fastavro.schemaless_reader(io.BytesIO(value), parsed, None) for value in theirs.to_pylist()
    ] == given
    from_container = pq.read_table(tmp_path / "container").cast(coder.schema())
    assert from_container.to_pylist() == coder.decode(encoded.values[:1]).rows.to_pylist()
