"""Connectors as plain Spark users meet them: formats, options, limits, errors."""

import json

import pytest
from pyspark.errors import AnalysisException, PySparkException

pytestmark = pytest.mark.spark


def drained(stream, tmp_path, **options):
    """Run a stream to its end into a list of (batch id, rows)."""
    seen = []
    query = (
        stream.writeStream.foreachBatch(
            lambda frame, number: seen.append((number, frame.select("id").collect()))
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert not query.isActive
    return seen, query


def test_a_batch_read_needs_no_registration(spark):
    frame = spark.read.format("penstock.generator").option("rows", 1000).load()
    assert frame.select("id").distinct().count() == 1000


def test_asked_columns_are_the_only_ones_read(spark):
    frame = spark.read.format("penstock.generator").schema("id string").option("rows", 10).load()
    assert frame.columns == ["id"]
    assert frame.count() == 10


def test_a_stream_honours_its_row_limit_and_ends(spark, tmp_path):
    stream = spark.readStream.format("penstock.generator").options(rows=1000, max_rows=300).load()
    seen, _ = drained(stream, tmp_path)
    assert [len(rows) for _, rows in seen] == [300, 300, 300, 100]
    assert len({row.id for _, rows in seen for row in rows}) == 1000


def test_a_stream_resumes_where_its_checkpoint_stands(spark, tmp_path):
    def stream(rows):
        return spark.readStream.format("penstock.generator").options(rows=rows, max_rows=100).load()

    first, _ = drained(stream(200), tmp_path)
    second, _ = drained(stream(350), tmp_path)
    assert sum(len(rows) for _, rows in first) == 200
    assert [number for number, _ in second] == [2, 3]
    assert sum(len(rows) for _, rows in second) == 150


def test_the_lag_shows_in_the_progress(spark, tmp_path):
    stream = spark.readStream.format("penstock.generator").options(rows=300, max_rows=100).load()
    _, query = drained(stream, tmp_path)
    lags = [json.loads(p["sources"][0]["latestOffset"])["lag"]["0"] for p in query.recentProgress]
    assert lags == [200, 100, 0]


def test_a_checkpoint_of_another_source_is_refused(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\n")
    files = (
        spark.readStream.format("penstock.localfile")
        .options(path=str(tmp_path / "in"), state=str(tmp_path / "state"))
        .load()
    )
    drained(files, tmp_path)
    stream = spark.readStream.format("penstock.generator").options(rows=10).load()
    with pytest.raises(PySparkException, match="position of another source"):
        drained(stream, tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rws": 5}, ["the option rws is unknown", "did you mean 'rows'?", "generator (penstock"]),
        ({"rows": "many"}, ["the option rows has the wrong type", "whole number"]),
        ({"rows": -1}, ["the option rows must be at least 0"]),
    ],
)
def test_a_bad_option_is_named_before_anything_is_read(spark, options, said):
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("penstock.generator").options(**options).load()
    assert all(words in str(caught.value) for words in said)


def test_a_sink_that_cannot_be_read_says_so(spark):
    with pytest.raises(AnalysisException, match="it cannot be read"):
        spark.read.format("penstock.stdout").load()


def test_a_source_that_cannot_be_written_says_so(spark):
    frame = spark.range(1).selectExpr("cast(id as string) as value")
    with pytest.raises(PySparkException, match="it cannot be written"):
        frame.write.format("penstock.generator").mode("append").save()


def test_files_are_written_and_read_back_in_batch(spark, tmp_path):
    frame = spark.read.format("penstock.generator").options(rows=500, format="text").load()
    frame.write.format("penstock.localfile").mode("append").save(str(tmp_path / "out"))
    again = spark.read.format("penstock.localfile").load(str(tmp_path / "out"))
    assert {bytes(row.value) for row in again.collect()} == {
        f"record {n}".encode() for n in range(500)
    }


def test_files_are_written_by_a_stream_once_each(spark, tmp_path):
    stream = (
        spark.readStream.format("penstock.generator")
        .options(rows=500, max_rows=100, format="text")
        .load()
    )
    query = (
        stream.writeStream.format("penstock.localfile")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination(120)
    lines = [
        line for path in (tmp_path / "out").glob("*.txt") for line in path.read_text().splitlines()
    ]
    assert sorted(lines) == sorted(f"record {n}" for n in range(500))


def test_registering_by_hand_names_every_format(spark):
    from penstock.spark.discovery import register

    assert {"penstock.generator", "penstock.stdout"} <= set(register(spark))
