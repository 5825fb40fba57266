"""Files that Spark reads itself: the same rows, stamps included, as our own reader gives."""

import datetime
import decimal
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pen
from penstock.contracts.errors import SchemaError

pytestmark = pytest.mark.spark
KINDS = pa.schema(
    [
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("id", pa.int32()),
        ("long", pa.int64()),
        ("half", pa.float32()),
        ("amount", pa.float64()),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("price", pa.decimal128(9, 2)),
    ]
)


def row(number):
    if number % 5 == 0:
        return dict.fromkeys(KINDS.names)
    return {
        "flag": number % 2 == 0,
        "tiny": number % 100 - 50,
        "small": -number,
        "id": number,
        "long": number << 40,
        "half": number / 4,
        "amount": float("nan") if number == 7 else number / 3,
        "name": f"Grüße {number}\n\0",
        "raw": bytes([number % 256, 255, 0]),
        "day": datetime.date(1500, 2, 28) + datetime.timedelta(number),
        "at": datetime.datetime(1000, 1, 1, 1, 1, 1, number, tzinfo=datetime.UTC),
        "price": decimal.Decimal(number) / 100,
    }


def put(path, numbers, **more):
    os.makedirs(path.parent, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([row(n) for n in numbers], KINDS), path, **more)


def own(spark, **options):
    return spark.read.format("penstock.localfile").options(**options).load()


def in_spark(frame):
    return "FileScan" in frame._jdf.queryExecution().executedPlan().toString()


def rows(frame):
    return sorted(map(repr, frame.collect()))


def same(spark, **options):
    """A native frame, seen to be what our own reader gives."""
    frame, ours = pen.read(spark, "localfile", **options), own(spark, **options)
    assert in_spark(frame)
    assert not in_spark(ours)
    assert frame.schema.simpleString() == ours.schema.simpleString()
    assert rows(frame) == rows(ours)
    return frame


def test_parquet_files_give_the_same_rows_and_stamps(tmp_path, spark):
    put(tmp_path / "in" / "a.parquet", range(1000), row_group_size=300)
    put(tmp_path / "in" / "b" / "k=1" / "b.parquet", range(1000, 1010))
    put(tmp_path / "in" / "empty.parquet", [])
    frame = same(spark, path=str(tmp_path / "in"), format="parquet", recursive="true")
    stamps = {tuple(r[0]) for r in frame.select("_pen.stamp").collect()}
    origin = f"file:{tmp_path}/in"
    assert {(origin, "a.parquet", 999), (origin, "b/k=1/b.parquet", 9)} <= stamps
    assert len(stamps) == 1010


def test_parts_of_a_large_parquet_file_keep_their_stamps(tmp_path, spark):
    put(tmp_path / "a.parquet", range(20_000), row_group_size=1000)
    size = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(size)
    spark.conf.set(size, "20000")
    try:
        frame = same(spark, path=str(tmp_path / "*.parquet"), format="parquet")
        assert frame.rdd.getNumPartitions() > 3
    finally:
        spark.conf.set(size, before)


def test_some_columns_of_a_parquet_file(tmp_path, spark):
    put(tmp_path / "a.parquet", range(10))
    options = {"path": str(tmp_path), "format": "parquet", "schema": "name STRING, id INT"}
    same(spark, **options)
    frame = pen.read(spark, "localfile", columns=["id"], **options)
    assert in_spark(frame)
    assert [r.id for r in frame.collect()] == [row(n)["id"] for n in range(10)]


def test_a_parquet_file_of_other_types_goes_through_our_own_reader(tmp_path, spark):
    pq.write_table(pa.table({"id": [1, 2**40, 3]}), tmp_path / "a.parquet")
    frame = pen.read(spark, "localfile", path=str(tmp_path), format="parquet", schema="id INT")
    assert not in_spark(frame)
    good, bad, also = frame.collect()
    assert [good.id, bad.id, also.id] == [1, None, 3]
    assert bytes(bad._pen.error.original) == b'{"id": 1099511627776}'


@pytest.mark.parametrize("name", ["a b.parquet", "_a.parquet", "ü.parquet", "a%41.parquet", "[a]"])
def test_names_that_spark_shows_otherwise_go_through_our_own_reader(tmp_path, spark, name):
    put(tmp_path / "in" / name, range(3))
    put(tmp_path / "in" / "plain.parquet", range(3))
    options = {"path": str(tmp_path / "in"), "format": "parquet", "hidden": "true"}
    frame = pen.read(spark, "localfile", **options)
    assert not in_spark(frame)
    assert rows(frame) == rows(own(spark, **options))
    assert frame.count() == 6


ODD = b"one\r\n\ntwo\rhalf\r\r\n\xff\xfe\n  three \nlast\r"


def test_lines_without_their_stamps_are_read_by_spark(tmp_path, spark):
    (tmp_path / "a.log").write_bytes(ODD)
    (tmp_path / "b.log").write_bytes(b"x\n")
    (tmp_path / "c.log").write_bytes(b"")
    frame = pen.read(spark, "localfile", path=str(tmp_path), columns=["value"])
    assert in_spark(frame)
    ours = own(spark, path=str(tmp_path)).select("value")
    assert frame.schema.simpleString() == ours.schema.simpleString()
    assert rows(frame) == rows(ours)
    assert b"two\rhalf\r" in [bytes(r.value) for r in frame.collect()]


def test_lines_with_their_stamps_are_read_by_us(tmp_path, spark):
    (tmp_path / "a.log").write_bytes(ODD)
    frame = pen.read(spark, "localfile", path=str(tmp_path), columns=["stamp", "value"])
    assert not in_spark(frame)
    assert frame.columns == ["stamp", "value"]
    assert [r.stamp.position for r in frame.collect()] == [0, 5, 6, 17, 20, 29]


def test_a_byte_order_mark_is_part_of_the_first_line(tmp_path, spark):
    (tmp_path / "a.log").write_bytes(b"\xef\xbb\xbfone\n")
    frame = pen.read(spark, "localfile", path=str(tmp_path), columns=["value"])
    assert bytes(frame.first().value) == b"\xef\xbb\xbfone"


def test_a_line_beyond_the_bound_is_an_error_in_spark_too(tmp_path, spark):
    (tmp_path / "a.log").write_bytes(b"short\n" + b"x" * 100 + b"\n")
    options = {"path": str(tmp_path), "max_record_bytes": 50, "columns": ["value"]}
    frame = pen.read(spark, "localfile", **options)
    assert in_spark(frame)
    with pytest.raises(Exception, match="longer than 50 bytes"):
        frame.collect()


def test_a_column_that_is_not_there_is_named(tmp_path, spark):
    put(tmp_path / "a.parquet", range(3))
    with pytest.raises(SchemaError, match="there is no column nam"):
        pen.read(spark, "localfile", path=str(tmp_path), format="parquet", columns=["nam"])
