"""Files that Spark reads itself: the same rows, stamps included, as our own reader gives."""

import datetime
import decimal
import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pen
from penstock.coders.text import is_utf8
from penstock.contracts.errors import SchemaError
from penstock_localfile.engine.formats.plain import BOM

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
    ours = own(spark, path=str(tmp_path), max_record_bytes="50")
    for each in (frame, ours):
        with pytest.raises(Exception, match="longer than 50 bytes"):
            each.collect()


TEXTS = {
    "empty": b"",
    "end": b"\n",
    "back": b"\r",
    "both": b"\r\n",
    "turned": b"\n\r",
    "plain": b"one\n\ntwo\n  three \nlast",
    "windows": b"one\r\n\r\ntwo\r\nlast\r\n",
    "old": b"one\rtwo\r\rthree\rlast\r",
    "mixed": b"one\ntwo\rthree\r\nfour\n\rfive\r\r\nsix\n\n\rlast",
    "zero": b"a\0b\n\0\n",
    "breaks": "a\x0bb\x0cc\x1cd\x85e\u2028f\n".encode(),
    "marked": b"\xef\xbb\xbfone\ntwo\n",
    "marked-twice": b"\xef\xbb\xbf\xef\xbb\xbfone\n\xef\xbb\xbftwo\n",
    "only-a-mark": b"\xef\xbb\xbf",
    "mark-and-end": b"\xef\xbb\xbf\r\n",
    "half-a-mark": b"\xef\xbb\none\n",
    "letters": "Grüße\n漢字\n\U0001f600\n".encode(),
    "latin": b"gr\xfc\xdfe\ngood\n",
    "surrogate": b"\xed\xa0\x80\n\xed\x9f\xbf\n",
    "overlong": b"\xc0\x80\n\xc1\xbf\n\xe0\x80\x80\n\xf0\x80\x80\x80\n",
    "beyond": b"\xf4\x8f\xbf\xbf\n\xf4\x90\x80\x80\n\xf5\x80\x80\x80\n\xff\n",
    "cut": b"ok\n\xe6\xbc\n\xf0\x9f\x98\n\xc3",
    "wide": "one\ntwo\n".encode("utf-16"),
}


@pytest.fixture
def texts(tmp_path):
    chance = random.Random(8)
    some = [b"a", b"bc", b"\r", b"\n", b"\r\n", "ü".encode(), b"\xff", b""]
    for name, data in TEXTS.items():
        (tmp_path / name).write_bytes(data)
    for number in range(10):
        data = b"".join(chance.choices(some, k=60))
        (tmp_path / f"random-{number}").write_bytes(data)
    return tmp_path


def as_bytes(frame):
    """The values; collected as text, those that are none would look alike."""
    found = frame.selectExpr("CAST(value AS BINARY) AS value").collect()
    return sorted((r.value is not None, bytes(r.value or b"")) for r in found)


@pytest.mark.parametrize("utf8", ["check", "trust"])
@pytest.mark.parametrize("cut", [7, 1 << 20], ids=["in small parts", "whole"])
def test_text_is_what_our_own_reader_makes_of_it(texts, spark, utf8, cut):
    options = {"path": str(texts), "format": "text", "utf8": utf8}
    ours = own(spark, split_bytes=str(cut), **options).select("value")
    size = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(size)
    spark.conf.set(size, str(cut))
    try:
        frame = pen.read(spark, "localfile", columns=["value"], **options)
        assert in_spark(frame)
        assert not in_spark(ours)
        assert frame.schema.simpleString() == ours.schema.simpleString()
        found = as_bytes(frame)
    finally:
        spark.conf.set(size, before)
    assert found == as_bytes(ours)
    lines = [x for p in texts.iterdir() for x in p.read_bytes().removeprefix(BOM).splitlines()]
    assert found == sorted(
        (True, x) if utf8 == "trust" or is_utf8(x) else (False, b"") for x in lines
    )


def test_text_that_is_trusted_costs_what_it_costs_spark(texts, spark):
    options = {"path": str(texts), "format": "text", "columns": ["value"]}
    plan = "Project"
    trusted = pen.read(spark, "localfile", utf8="trust", **options)
    assert plan not in trusted._jdf.queryExecution().executedPlan().toString()
    checked = pen.read(spark, "localfile", **options)
    assert plan in checked._jdf.queryExecution().executedPlan().toString()


def test_text_beyond_the_bound_is_an_error_in_spark_too(tmp_path, spark):
    (tmp_path / "a.log").write_bytes(b"short\r" + b"x" * 51 + b"\r\n")
    options = {"path": str(tmp_path), "format": "text", "max_record_bytes": 50}
    for frame in (
        own(spark, **options),
        pen.read(spark, "localfile", columns=["value"], **options),
    ):
        with pytest.raises(Exception, match="longer than 50 bytes"):
            frame.collect()
    options["max_record_bytes"] = 51
    frame = pen.read(spark, "localfile", columns=["value"], **options)
    assert in_spark(frame)
    assert [len(r.value) for r in frame.collect()] == [5, 51]


def test_text_with_its_stamps_is_read_by_us(texts, spark):
    frame = pen.read(spark, "localfile", path=str(texts / "latin"), format="text")
    assert not in_spark(frame)
    bad, good = frame.collect()
    assert (bad.value, bytes(bad._pen.error.original)) == (None, b"gr\xfc\xdfe")
    assert (good.value, good._pen.stamp.position) == ("good", 6)


def test_a_column_that_is_not_there_is_named(tmp_path, spark):
    put(tmp_path / "a.parquet", range(3))
    with pytest.raises(SchemaError, match="there is no column nam"):
        pen.read(spark, "localfile", path=str(tmp_path), format="parquet", columns=["nam"])
