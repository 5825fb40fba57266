"""The original bytes of a dead letter, wherever Spark had the record in between."""

import json

import pytest
from pyspark.sql.functions import expr

import penstock as pen
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.deadletters import DeadLetters
from penstock.spark.replay import replay

pytestmark = pytest.mark.spark

ORDERS = "id long, customer string, total double, at timestamp"
BAD = (7, 23)


def no_sevens(order):
    if order["id"] in BAD:
        raise ValueError("not this one")
    return order


def mended(order):
    return order


def twice(order):
    return [order, order]


def frame(data):
    return data.withColumn("total", data.total * 2)


def spaced(data):
    return data.withColumn("value", expr("CAST(concat(' ', CAST(value AS STRING)) AS BINARY)"))


def orders(name="orders", seed=7):
    return pen.pipeline("originals").source("generator", name=name, rows=40, seed=seed)


def decoded(name="orders", seed=7):
    return orders(name, seed).decode("json", schema=ORDERS, name=f"{name}-read")


def letters(state):
    return DeadLetters(Checkpoint(str(state)).dead_letters)


def sent(spark, seed=7):
    """What the source gave, by id."""
    rows = pen.read(spark, "generator", rows=40, seed=seed).select("value").collect()
    return {json.loads(bytes(row.value))["id"]: bytes(row.value) for row in rows}


FLOWS = {
    "where": lambda: decoded().where("id >= 0"),
    "select": lambda: decoded().select("id", "total * 2 AS total"),
    "the decode in the reader, a key after it": lambda: decoded().key_by("customer"),
    "deduplicate": lambda: decoded().deduplicate(),
    "apply": lambda: decoded().apply(frame, schema=ORDERS),
    "python on both sides": lambda: decoded().map(mended, name="before").where("id >= 0"),
    "bytes that Spark has changed": lambda: (
        orders().apply(spaced, schema="value binary").decode("json", schema=ORDERS)
    ),
    "bytes that Spark has let be": lambda: (
        orders().where("length(value) > 0").deduplicate().decode("json", schema=ORDERS)
    ),
    "many of one": lambda: decoded().flat_map(twice, schema=ORDERS).where("id >= 0"),
    "encoded in between": lambda: (
        decoded().encode("json").where("length(value) > 0").decode("json", schema=ORDERS)
    ),
    "a split": lambda: decoded().map(mended, name="spread", parallelism=3),
}


@pytest.mark.parametrize("name", FLOWS)
def test_a_step_that_fails_behind_spark_has_the_original_bytes(spark, tmp_path, name):
    state, out = tmp_path / "state", tmp_path / "out"

    def flow(function):
        return (
            FLOWS[name]()
            .map(function, name="check", deterministic=True)
            .sink("localfile", path=str(out), format="json")
        )

    flow(no_sevens).run(checkpoint=state, spark=spark)
    times = 2 if name == "many of one" else 1
    expected = sorted(sent(spark)[id] for id in BAD for _ in range(times))
    found = letters(state).table()
    assert sorted(found["original"].to_pylist()) == expected
    assert set(found["node"].to_pylist()) == {"check"}

    again = replay(flow(no_sevens).graph, state, spark=spark)
    assert again == {"replayed": len(expected), "failed": len(expected)}
    assert sorted(letters(state).table()["original"].to_pylist()) == expected
    done = replay(flow(mended).graph, state, spark=spark)
    assert done == {"replayed": len(expected), "failed": 0}
    files = [path.read_text().splitlines() for path in out.glob("part-*")]
    ids = [json.loads(text)["id"] for lines in files for text in lines]
    assert sorted(ids) == sorted(list(range(40)) * times)


def test_each_of_two_merged_sources_gives_its_own_bytes(spark, tmp_path):
    both = decoded("left", 1).merge(decoded("right", 2)).where("id >= 0")
    flow = both.map(no_sevens, name="check").sink("stdout", limit=0)
    flow.run(checkpoint=tmp_path / "state", spark=spark)
    expected = sorted(sent(spark, seed)[id] for seed in (1, 2) for id in BAD)
    found = letters(tmp_path / "state").table()
    assert sorted(found["original"].to_pylist()) == expected


def test_both_sides_of_a_branch_have_them_from_the_staged_rows(spark, tmp_path):
    few, many = decoded().branch("id < 10")
    left = few.map(no_sevens, name="left").sink("stdout", name="one", limit=0)
    right = many.map(no_sevens, name="right").sink("stdout", name="two", limit=0)
    left.also(right).run(checkpoint=tmp_path / "state", spark=spark)
    found = letters(tmp_path / "state").table().to_pylist()
    assert {(row["node"], row["original"]) for row in found} == {
        ("left", sent(spark)[7]),
        ("right", sent(spark)[23]),
    }


def broken_name(order):
    return {**order, "customer": "x" * 300 if order["id"] in BAD else "some"}


@pytest.mark.parametrize("between", ["python", "spark"])
def test_what_a_sink_refuses_has_the_bytes_and_the_stamp_of_its_record(spark, tmp_path, between):
    made = decoded().map(broken_name, name="names", schema=ORDERS, deterministic=True)
    if between == "spark":
        made = made.where("id >= 0")
    state, out = tmp_path / "state", tmp_path / "out"
    flow = made.sink("localfile", name="out", path=str(out), format="json", partition_by="customer")
    flow.run(checkpoint=state, spark=spark)
    found = letters(state).table().to_pylist()
    assert sorted(row["original"] for row in found) == sorted(sent(spark)[id] for id in BAD)
    assert {row["node"] for row in found} == {"out"}
    assert sorted(row["stamp"]["position"] for row in found) == list(BAD)
    done = replay(flow.graph, state, spark=spark)
    assert done == {"replayed": 2, "failed": 2}
    again = letters(state).table().to_pylist()
    assert [row["stamp"] for row in again] == [row["stamp"] for row in found]
    assert sorted(row["original"] for row in again) == sorted(sent(spark)[id] for id in BAD)


def test_a_dataframe_of_bytes_gives_what_it_held(spark, tmp_path):
    rows = spark.createDataFrame([(b'{"id": 1}',), (b'{"id": 7}',)], "body binary")
    flow = (
        pen.pipeline("frames")
        .source(rows, value="body")
        .apply(spaced, schema="value binary", deterministic=True)
        .decode("json", schema="id long")
        .map(no_sevens, name="check")
        .sink("stdout", limit=0)
    )
    flow.run(checkpoint=tmp_path / "state", spark=spark)
    assert letters(tmp_path / "state").table()["original"].to_pylist() == [b'{"id": 7}']
