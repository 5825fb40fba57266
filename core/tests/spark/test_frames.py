"""Spark's own formats and the user's DataFrames as ends of a pipeline."""

import json
from pathlib import Path

import pytest

import penstock as pen
from penstock.contracts.errors import MaterialiseError, RunError, SchemaError, WriteError
from penstock.spark.deadletters import DeadLetters

pytestmark = pytest.mark.spark

ORDERS = "id long, customer string, total double"


def generated(name, rows, **options):
    source = pen.pipeline(name).source("generator", rows=rows, seed=7, **options)
    return source.decode("json", schema=ORDERS)


def lines(folder):
    files = [p for p in sorted(Path(folder).iterdir()) if p.is_file() and p.name[0] not in "._"]
    return [json.loads(line) for p in files for line in p.read_text().splitlines()]


def test_what_spark_writes_as_parquet_spark_and_penstock_read(spark, tmp_path):
    table = str(tmp_path / "table")
    handle = (
        generated("out", 200)
        .limits(max_rows=100)
        .sink("spark", format="parquet", path=table)
        .run(checkpoint=tmp_path / "one", spark=spark)
    )
    assert handle.counts()["spark"].rows_in == 200
    found = spark.read.parquet(table)
    assert found.columns == ["id", "customer", "total"]
    assert found.count() == 200

    def back():
        flow = (
            pen.pipeline("back")
            .source("spark", format="parquet", path=table, key="customer")
            .where("id < 50")
            .map(lambda order: {**order, "total": 0.0})
            .sink("localfile", path=str(tmp_path / "out"), format="json")
        )
        return flow.run(checkpoint=tmp_path / "two", spark=spark)

    back()
    back()  # a restart does not read it again
    assert sorted(order["id"] for order in lines(tmp_path / "out")) == list(range(50))
    assert {order["total"] for order in lines(tmp_path / "out")} == {0.0}


def test_a_stream_of_files_that_spark_reads_flows_through_python_steps(spark, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"id": number}) + "\n")
    handle = (
        pen.pipeline("files")
        .source(
            "spark",
            format="json",
            path=str(tmp_path / "in"),
            schema="id long",
            stream=True,
            options={"maxFilesPerTrigger": 1},
        )
        .bounded()
        .map(lambda record: {"id": record["id"] * 10})
        .sink("localfile", path=str(tmp_path / "out"), format="json")
        .run(checkpoint=tmp_path / "state", spark=spark)
    )
    assert sorted(order["id"] for order in lines(tmp_path / "out")) == [0, 10, 20]
    assert handle.progress()["batch"] == 2


def test_a_table_of_a_database_is_written_and_read_through_jdbc(spark, tmp_path):
    # Derby comes with Spark: a real database over a real driver, in Spark's own process.
    table = {"url": "jdbc:derby:memory:orders;create=true", "dbtable": "orders"}
    flow = generated("to-table", 50).sink("spark", format="jdbc", options=table)
    flow.run(checkpoint=tmp_path / "one", spark=spark)
    got = []
    (
        pen.pipeline("from-table")
        .source("spark", format="jdbc", options=table, id="id")
        .map(lambda order: {**order, "total": 1.0})
        .sink(lambda frame, batch: got.extend(row.id for row in frame.collect()), name="taken")
        .run(checkpoint=tmp_path / "two", spark=spark)
    )
    assert sorted(got) == list(range(50))


def test_a_dataframe_enters_and_a_function_of_a_dataframe_gets_what_comes_out(spark, tmp_path):
    frame = spark.createDataFrame([(n, f"c{n % 3}", n * 1.0) for n in range(30)], ORDERS)
    got = []

    def taken(batch, number):
        got.append((number, sorted(row.id for row in batch.collect()), batch.columns))

    handle = (
        pen.pipeline("frames")
        .source(frame, id="id")
        .filter(lambda order: order["customer"] == "c1")
        .sink(taken)
        .run(checkpoint=tmp_path / "state")
    )
    assert got == [(0, list(range(1, 30, 3)), ["id", "customer", "total"])]
    assert handle.counts()["taken"].rows_in == 10


def test_a_streaming_dataframe_and_a_connector_merge(spark, tmp_path):
    stream = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 5)
        .load()
        .selectExpr("value + 1000 AS id", "'rate' AS customer", "0.5D AS total", "timestamp")
        .select("id", "customer", "total")
    )
    ids = []

    def taken(batch, number):
        ids.extend(row.id for row in batch.select("id").collect())

    handle = (
        generated("both", 20)
        .merge(pen.source(stream, name="rate"))
        .bounded()
        .sink(taken)
        .run(checkpoint=tmp_path / "state", spark=spark, wait=False)
    )
    handle.wait(60)
    handle.stop()
    assert [n for n in sorted(ids) if n < 1000] == list(range(20))
    assert [n for n in sorted(ids) if n >= 1000][:5] == list(range(1000, 1005))


def test_bytes_of_a_spark_format_are_decoded_with_key_time_and_stamp(spark, tmp_path):
    rows = [(b"k", json.dumps({"id": n}).encode(), "t", 0, n, 1_700_000_000 + n) for n in range(5)]
    schema = "key binary, value binary, topic string, partition int, offset long, at long"
    frame = spark.createDataFrame(rows, schema).selectExpr("*", "timestamp_seconds(at) AS when")
    handle = (
        pen.pipeline("bytes")
        .source(
            frame,
            value="value",
            key="key",
            event_time="when",
            stamp=["topic", "partition", "offset"],
        )
        .decode("json", schema="id long")
        .map(_bad_on_three, name="check", meta=True)
        .sink("localfile", path=str(tmp_path / "out"))
        .run(checkpoint=tmp_path / "state", spark=spark)
    )
    assert sorted(r["id"] for r in lines(tmp_path / "out")) == [0, 1, 2, 4]
    [letter] = DeadLetters(handle.checkpoint.dead_letters).table().to_pylist()
    assert letter["stamp"] == {"origin": "t", "part": "0", "position": 3}
    assert letter["key"] == b"k"
    assert letter["event_time"].timestamp() == 1_700_000_003


def _bad_on_three(record):
    if record["id"] == 3:
        raise ValueError("three")
    return {"id": record["id"]}


def test_failures_before_a_sink_that_spark_writes_become_dead_letters(spark, tmp_path):
    handle = (
        generated("bad", 10)
        .map(lambda r: _bad_on_three(r) and r, name="check")
        .sink("spark", format="json", path=str(tmp_path / "out"), columns=["id", "_pen.key AS k"])
        .run(checkpoint=tmp_path / "state", spark=spark)
    )
    written = spark.read.json(str(tmp_path / "out"))
    assert written.count() == 9
    assert sorted(written.columns) == ["id", "k"]
    [letter] = DeadLetters(handle.checkpoint.dead_letters).table().to_pylist()
    assert letter["node"] == "check"


def test_a_batch_in_a_folder_of_its_own_is_there_once_however_often_it_is_written(spark, tmp_path):
    broken = tmp_path / "broken"
    broken.touch()

    def fails_once(frame, number):
        if broken.exists() and number == 1:
            broken.unlink()
            raise OSError("the disk is gone")

    def run():
        flow = (
            generated("again", 30, parallelism=1)
            .limits(max_rows=10)
            .sink(
                "spark",
                name="table",
                format="parquet",
                mode="overwrite",
                path=f"{tmp_path}/table/batch={{batch}}",
            )
            .sink(fails_once, name="fails", idempotent=True)
            .guarantee("exactly-once")
        )
        return flow.run(checkpoint=tmp_path / "state", spark=spark)

    with pytest.raises(WriteError, match="the disk is gone") as caught:
        run()
    assert "batch 1" in str(caught.value)
    # As if the process had been killed after Spark's write and before we wrote that down.
    (tmp_path / "state" / "penstock" / "batches" / "1.log").unlink()
    run()
    table = spark.read.parquet(f"{tmp_path}/table")
    assert sorted(row.id for row in table.collect()) == list(range(30))
    assert sorted(row.batch for row in table.select("batch").distinct().collect()) == [0, 1, 2]


def test_what_spark_cannot_load_is_told_in_one_line_with_the_node(spark, tmp_path):
    flow = pen.pipeline("p").source(
        "spark", name="orders", format="parquet", path=str(tmp_path / "no")
    )
    with pytest.raises(MaterialiseError, match="loading failed: AnalysisException") as caught:
        flow.sink("stdout").run(spark=spark)
    assert "JVM stacktrace" not in str(caught.value)


def test_a_column_that_is_not_there_is_named(spark):
    frame = spark.range(3)
    with pytest.raises(SchemaError, match="there is no column body") as caught:
        pen.pipeline("p").source(frame, value="body").sink("stdout").run(spark=spark)
    assert caught.value.expected == "one of id"


def test_a_secret_option_of_a_format_is_in_no_error(spark):
    flow = pen.pipeline("p").source(
        "spark",
        format="jdbc",
        options={"url": "jdbc:none://h/canary-url", "dbtable": "t", "password": "canary-word"},
    )
    with pytest.raises(RunError) as caught:
        flow.sink("stdout").run(spark=spark)
    assert "canary" not in str(caught.value)
    assert "\tat " not in str(caught.value)


def test_a_record_before_a_function_over_a_frame_is_computed_once_and_never_lost(spark, tmp_path):
    calls = tmp_path / "calls"
    calls.mkdir()

    def fails_at_first(record):
        mark = calls / str(record["id"])
        with open(mark, "a") as file:
            file.write("x")
        if record["id"] % 10 == 3 and mark.read_text() == "x":
            raise ValueError("the first time")
        return record

    flow = (
        generated("frame", 100)
        .map(fails_at_first)
        .apply(lambda frame: frame)
        .sink("localfile", path=str(tmp_path / "out"), format="json")
    )
    handle = flow.run(checkpoint=tmp_path / "state", spark=spark)
    kept = sorted(order["id"] for order in lines(tmp_path / "out"))
    assert kept == [n for n in range(100) if n % 10 != 3]
    letters = DeadLetters(tmp_path / "state" / "penstock" / "dead-letters").table()
    assert letters["message"].to_pylist() == ["the first time"] * 10
    assert {mark.read_text() for mark in calls.iterdir()} == {"x"}
    assert handle.counts()["fails_at_first"].errors == 10
