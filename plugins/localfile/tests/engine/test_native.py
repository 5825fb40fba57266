"""Which files are left to Spark; no Spark here."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import evolve

from penstock.contracts import Context
from penstock_localfile.source import LocalFiles

SIMPLE = pa.table({"id": [1, 2], "name": ["a", "b"]})


def parts(source):
    planner = source.planner(Context())
    try:
        return planner.plan(planner.initial(), planner.final())
    finally:
        planner.close()


def left_to_spark(folder, form="parquet", **options):
    source = LocalFiles(path=str(folder), format=form, **options)
    return source.in_spark(parts(source), stamps=form == "parquet")


def test_plain_files_are_described_with_their_rows_and_stamps(tmp_path):
    pq.write_table(SIMPLE, tmp_path / "a.parquet")
    pq.write_table(SIMPLE, tmp_path / "b.parquet")
    found = left_to_spark(tmp_path, split_bytes=1000, parts=3)
    assert sorted(found.paths) == [f"{tmp_path}/a.parquet", f"{tmp_path}/b.parquet"]
    assert found.rows == 4
    assert found.stamp.position == "_metadata.row_index"
    assert (found.split, found.tasks) == (1000, 3)


NESTED = pa.table({"id": [[1]], "name": ["a"]})
ODD = {
    "nested": (NESTED, {}),
    "a column is missing": (SIMPLE.select(["id"]), {"schema": "id BIGINT, name STRING"}),
    "another type": (SIMPLE, {"schema": "id INT, name STRING"}),
    "names differ by case": (SIMPLE.rename_columns(["id", "ID"]), {"schema": "id BIGINT"}),
    "a name with a dot": (SIMPLE.rename_columns(["i.d", "name"]), {}),
    "Spark's own word": (SIMPLE.rename_columns(["_metadata", "name"]), {}),
    "times without a zone": (pa.table({"at": pa.array([1], pa.timestamp("us"))}), {}),
    "another calendar": (
        SIMPLE.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""}),
        {},
    ),
}


@pytest.mark.parametrize("why", ODD)
def test_files_in_doubt_are_ours(tmp_path, why):
    table, options = ODD[why]
    pq.write_table(table, tmp_path / "a.parquet")
    assert left_to_spark(tmp_path, **options) is None


def test_a_nested_column_that_nobody_asks_for_does_not_matter(tmp_path):
    pq.write_table(NESTED, tmp_path / "a.parquet")
    assert left_to_spark(tmp_path, schema="name STRING").schema.names == ["name"]


def test_a_broken_file_is_ours_to_tell(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not PAR1")
    assert left_to_spark(tmp_path, schema="id BIGINT") is None


def test_a_file_that_has_grown_changed_or_is_read_in_part_is_ours(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(SIMPLE, path)
    source = LocalFiles(path=str(tmp_path), format="parquet")
    (whole,) = parts(source)
    (piece,) = whole.ranges
    assert source.in_spark([whole], stamps=True) is not None
    some = evolve(whole, ranges=(evolve(piece, end=piece.end - 1),))
    assert source.in_spark([some], stamps=True) is None
    second = evolve(whole, ranges=(evolve(piece, file=evolve(piece.file, version=2)),))
    assert source.in_spark([second], stamps=True) is None
    os.utime(path, (1, 1))
    assert source.in_spark([whole], stamps=True) is None


def test_more_files_than_the_driver_should_look_into_are_ours(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock_localfile.engine.native.MOST_FILES", 1)
    pq.write_table(SIMPLE, tmp_path / "a.parquet")
    assert left_to_spark(tmp_path) is not None
    pq.write_table(SIMPLE, tmp_path / "b.parquet")
    assert left_to_spark(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "data", "plain"),
    [
        ("a.log", b"one\n", {"lines", "text"}),
        ("a.gz", b"one\n", set()),
        ("a.snappy", b"one\n", set()),
        ("a b", b"one\n", set()),
        ("mark", b"\xef\xbb\xbfone\n", {"text"}),
    ],
)
@pytest.mark.parametrize("form", ["lines", "text"])
def test_lines_are_left_to_spark_if_it_sees_the_same_ones(tmp_path, form, name, data, plain):
    (tmp_path / name).write_bytes(data)
    assert (left_to_spark(tmp_path, form) is not None) is (form in plain)


@pytest.mark.parametrize("form", ["lines", "text"])
def test_a_bound_is_watched_only_where_a_line_could_be_longer(tmp_path, form):
    (tmp_path / "a").write_bytes(b"x" * 100)
    watched = left_to_spark(tmp_path, form, max_record_bytes=99).columns["value"]
    free = left_to_spark(tmp_path, form, max_record_bytes=100).columns["value"]
    assert "raise_error" in watched
    assert "raise_error" not in free
