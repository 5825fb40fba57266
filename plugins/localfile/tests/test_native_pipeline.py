"""Pipelines whose files Spark reads itself: stamps, dead letters and what was seen are the same."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pen
from penstock.contracts.errors import LayoutError
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.deadletters import DeadLetters
from penstock_localfile.source import LocalFiles

pytestmark = pytest.mark.spark


def put(folder, name, ids):
    folder.mkdir(exist_ok=True)
    table = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids]})
    pq.write_table(table, folder / name, row_group_size=7)


def flow(tmp_path, function=None, schema="id BIGINT, name STRING", **options):
    made = (
        pen.pipeline("files")
        .source("localfile", path=str(tmp_path / "in"), format="parquet", schema=schema, **options)
        .bounded()
        .select("id", "_pen.stamp.part AS part", "_pen.stamp.position AS position")
    )
    if function is not None:
        made = made.apply(function)
    return made.sink("localfile", path=str(tmp_path / "out"), format="json")


def out(tmp_path):
    files = (tmp_path / "out").glob("*.json")
    rows = [json.loads(line) for p in files for line in p.read_text().splitlines()]
    return sorted((r["part"], r["position"], r["id"]) for r in rows)


def reader_of(tmp_path, batch=0):
    log = Checkpoint(str(tmp_path / "state")).batch(batch).path
    facts = [json.loads(line) for line in log.read_text().splitlines()]
    return next(f["by"] for f in facts if "reader" in f)


def test_records_stamps_and_counts_are_those_of_our_own_reader(tmp_path, spark):
    put(tmp_path / "in", "a.parquet", range(20))
    put(tmp_path / "in", "b.parquet", range(100, 103))
    wanted = [("a.parquet", i, i) for i in range(20)]
    wanted += [("b.parquet", i, 100 + i) for i in range(3)]
    handle = flow(tmp_path).run(checkpoint=str(tmp_path / "state"))
    assert reader_of(tmp_path) == "Spark"
    assert out(tmp_path) == wanted
    assert handle.counts()["localfile"].rows_out == 23


def test_the_plan_tells_who_reads(tmp_path):
    explained = flow(tmp_path).explain()
    assert "localfile: Spark itself reads" in explained
    assert "  spark  localfile [id, name]" in explained
    straight = (
        pen.pipeline("files")
        .source("localfile", path=str(tmp_path / "in"), format="parquet", schema="id BIGINT")
        .sink("localfile", path=str(tmp_path / "out"), format="json")
    )
    assert "Spark itself" not in straight.explain()


def test_what_was_seen_is_not_read_again_and_files_go_when_they_are_done(tmp_path, spark):
    state = str(tmp_path / "state")
    put(tmp_path / "in", "a.parquet", [1, 2])
    flow(tmp_path).run(checkpoint=state)
    put(tmp_path / "in", "b.parquet", [3])
    flow(tmp_path, after="delete").run(checkpoint=state)
    assert out(tmp_path) == [("a.parquet", 0, 1), ("a.parquet", 1, 2), ("b.parquet", 0, 3)]
    assert reader_of(tmp_path, 1) == "Spark"
    assert list((tmp_path / "in").iterdir()) == []


def test_a_batch_with_a_record_that_does_not_fit_is_ours_and_makes_a_dead_letter(tmp_path, spark):
    put(tmp_path / "in", "a.parquet", [1, 2**40, 3])
    flow(tmp_path, schema="id INT").run(checkpoint=str(tmp_path / "state"))
    assert reader_of(tmp_path) == "penstock"
    assert out(tmp_path) == [("a.parquet", 0, 1), ("a.parquet", 2, 3)]
    (letter,) = DeadLetters(Checkpoint(str(tmp_path / "state")).dead_letters).table().to_pylist()
    assert letter["original"] == b'{"id": 1099511627776}'
    assert letter["stamp"]["position"] == 1
    assert letter["node"] == "localfile"


def test_a_batch_read_again_holds_the_same_files(tmp_path, spark):
    allowed = tmp_path / "allowed"

    def guarded(frame):
        if not allowed.exists():
            raise RuntimeError("not yet")
        return frame

    put(tmp_path / "in", "a.parquet", [1, 2])
    with pytest.raises(Exception, match="not yet"):
        flow(tmp_path, guarded).run(checkpoint=str(tmp_path / "state"))
    put(tmp_path / "in", "b.parquet", [3])
    allowed.touch()
    flow(tmp_path, guarded).run(checkpoint=str(tmp_path / "state"))
    assert out(tmp_path) == [("a.parquet", 0, 1), ("a.parquet", 1, 2), ("b.parquet", 0, 3)]
    assert reader_of(tmp_path, 0) == reader_of(tmp_path, 1) == "Spark"


def test_a_batch_is_not_read_again_by_another_reader(tmp_path):
    log = Checkpoint(str(tmp_path)).batch(3)
    log.fix_reader("files", "Spark")
    log.fix_reader("files", "Spark")
    with pytest.raises(LayoutError, match="the batch 3 was begun by another reader"):
        log.fix_reader("files", "penstock")


def test_options_decide_whether_spark_may_read():
    assert LocalFiles(path="/in", format="parquet").reads_in_spark(stamps=True)
    assert LocalFiles(path="/in").reads_in_spark(stamps=False)
    assert not LocalFiles(path="/in").reads_in_spark(stamps=True)
    assert LocalFiles(path="/in", format="text").reads_in_spark(stamps=False)
    assert not LocalFiles(path="/in", format="text").reads_in_spark(stamps=True)
    assert not LocalFiles(path="/in", format="csv").reads_in_spark(stamps=False)
