"""Which dead letters count; no Spark session needed."""

from datetime import UTC, datetime

import pyarrow as pa

from penstock.contracts.envelope import ERROR, PEN_FIELD, TIMESTAMP, pen
from penstock.pipeline.letter import LETTER
from penstock.pipeline.work import one_row
from penstock.spark.deadletters import DeadLetters
from penstock.spark.letters import Letters
from penstock.spark.targets import as_bytes


def failed(*names):
    errors = [{f.name: None for f in ERROR} | {"node": "n", "message": name} for name in names]
    meta = pen(len(names), error=pa.array(errors, ERROR), id=pa.array(names))
    times = pa.nulls(len(names), TIMESTAMP)
    schema = pa.schema([pa.field("event_time", TIMESTAMP), PEN_FIELD])
    return pa.RecordBatch.from_arrays([times, meta], schema=schema)


def written(folder, batch, *names):
    letters = Letters(str(folder), batch)
    letters.add(failed(*names))
    return list(letters.close())


def ids(letters):
    return sorted(letters.table()["id"].to_pylist())


def test_letters_count_once_they_are_published(tmp_path):
    letters = DeadLetters(tmp_path)
    one = written(tmp_path, 4, "a", "b")
    assert ids(letters) == []
    letters.publish(4, {"left": one})
    assert ids(letters) == ["a", "b"]


def test_a_sink_that_writes_again_replaces_its_letters(tmp_path):
    letters = DeadLetters(tmp_path)
    letters.publish(4, {"left": written(tmp_path, 4, "a")})
    letters.publish(4, {"left": written(tmp_path, 4, "a")})
    assert ids(letters) == ["a"]
    assert len(list((tmp_path / "files").iterdir())) == 1


def test_the_letters_of_a_sink_that_had_finished_survive_the_replay_of_another(tmp_path):
    letters = DeadLetters(tmp_path)
    letters.publish(4, {"left": written(tmp_path, 4, "a"), "right": written(tmp_path, 4, "b")})
    letters.publish(4, {"right": written(tmp_path, 4, "b")})
    assert ids(letters) == ["a", "b"]
    letters.publish(4, {})
    assert ids(letters) == ["a", "b"]


def test_a_batch_without_letters_leaves_no_trace(tmp_path):
    DeadLetters(tmp_path).publish(4, {"left": []})
    assert not list(tmp_path.iterdir())


def test_a_sink_that_takes_bytes_gets_a_letter_as_json(tmp_path):
    letters = DeadLetters(tmp_path)
    letters.publish(4, {"left": written(tmp_path, 4, "a")})
    [rows] = letters.table().cast(LETTER).to_batches()
    made = as_bytes(rows)
    assert b'"message":"a"' in made["value"][0].as_py().replace(b": ", b":")
    assert made["_pen"][0].as_py()["id"] == rows["letter"][0].as_py()


def test_a_letter_has_the_event_time_of_what_the_failing_node_got(tmp_path):
    when = datetime(2026, 1, 2, tzinfo=UTC)
    schema = pa.schema([pa.field("event_time", TIMESTAMP)])
    given = one_row(pa.RecordBatch.from_pylist([{"event_time": when}], schema=schema))
    error = {f.name: None for f in ERROR} | {"node": "n", "input": given}
    meta = pen(2, error=pa.array([error, {f.name: None for f in ERROR}], ERROR))
    rows = pa.RecordBatch.from_arrays([pa.nulls(2, TIMESTAMP), meta], names=["event_time", "_pen"])
    letters = Letters(str(tmp_path), 0)
    letters.add(rows)
    DeadLetters(tmp_path).publish(0, {"left": letters.close()})
    assert DeadLetters(tmp_path).table()["event_time"].to_pylist() == [when, None]
