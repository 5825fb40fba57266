"""Files through whole pipelines: what their source cannot read becomes a dead letter."""

import io
import json

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pen
from penstock.contracts.errors import RunError
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.deadletters import DeadLetters
from penstock.spark.replay import replay

pytestmark = pytest.mark.spark
SCHEMA = "id INT, name STRING"
GOOD = [{"id": 1, "name": "a"}, {"id": 3, "name": "c"}]


def avro():
    row = {"type": "record", "name": "row"}
    fields = [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]
    out = io.BytesIO()
    fastavro.writer(out, {**row, "fields": fields}, [GOOD[0], {"id": 2, "name": "??"}, GOOD[1]])
    return out.getvalue().replace(b"??", b"\xff\xff")


def parquet():
    out = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2**40, 3], "name": ["a", "b", "c"]}), out)
    return out.getvalue()


FILES = {
    "csv": (b"id,name\n1,a\nx,b\n3,c\n", b"x,b"),
    "json": (b'{"id": 1, "name": "a"}\n{"id": "x"}\n{"id": 3, "name": "c"}\n', b'{"id": "x"}'),
    "avro": (avro(), b"\x04\x04\xff\xff"),
    "parquet": (parquet(), b'{"id": 1099511627776, "name": "b"}'),
}


@pytest.mark.parametrize("form", FILES)
def test_a_record_that_cannot_be_read_is_a_dead_letter_and_the_rest_flows(tmp_path, spark, form):
    data, bad = FILES[form]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(data)
    flow = (
        pen.pipeline("files")
        .source("localfile", name="files", path=str(tmp_path / "in"), format=form, schema=SCHEMA)
        .bounded()
        .sink("localfile", path=str(tmp_path / "out"), format="json")
    )
    flow.run(checkpoint=str(tmp_path / "state"))
    files = (tmp_path / "out").glob("*.json")
    rows = [json.loads(line) for p in files for line in p.read_text().splitlines()]
    assert rows == [{**good, "event_time": None} for good in GOOD]
    letters = DeadLetters(Checkpoint(str(tmp_path / "state")).dead_letters)
    (letter,) = letters.table().to_pylist()
    assert letter["original"] == bad
    assert letter["stamp"]["part"] == "a"
    assert letter["node"] == "files"
    assert letter["message"]
    counts = replay(flow.graph, str(tmp_path / "state"), spark=spark)
    assert counts == {"replayed": 0, "failed": 0}
    assert letters.table().num_rows == 1


@pytest.mark.parametrize("action", ["skip", "stop"])
def test_a_record_that_cannot_be_read_is_skipped_or_stops_as_declared(tmp_path, spark, action):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(FILES["csv"][0])
    flow = (
        pen.pipeline("files")
        .source(
            "localfile",
            name="files",
            path=str(tmp_path / "in"),
            format="csv",
            schema=SCHEMA,
            on_error=action,
        )
        .bounded()
        .sink("localfile", path=str(tmp_path / "out"), format="json")
    )
    if action == "stop":
        with pytest.raises(RunError, match="files: a record could not be read"):
            flow.run(checkpoint=str(tmp_path / "state"), spark=spark)
        assert not list((tmp_path / "out").glob("*.json"))
        return
    count = flow.run(checkpoint=str(tmp_path / "state"), spark=spark).counts()["files"]
    assert (count.rows_out, count.errors, count.skipped) == (2, 0, 1)
    letters = DeadLetters(Checkpoint(str(tmp_path / "state")).dead_letters)
    assert letters.table().num_rows == 0
