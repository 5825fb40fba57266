"""What a queue sets aside becomes a dead letter once, whenever the driver dies; no Spark needed."""

import pyarrow as pa

from penstock.contracts.envelope import ENVELOPE, UNDECODED
from penstock.pipeline.work import read_row
from penstock.spark.deadletters import DeadLetters
from penstock.spark.poisoned import poisoned
from penstock.spark.queues.aside import Aside


def put(folder, name):
    row = {**dict.fromkeys(ENVELOPE.names), "id": name, "value": name.encode(), "key": b"k"}
    Aside(folder).put(pa.RecordBatch.from_pylist([row], schema=ENVELOPE), 3)


def ids(letters):
    return letters.table()["id"].to_pylist()


def test_a_letter_tells_node_bytes_and_failures_and_holds_what_the_pipeline_would_get(tmp_path):
    put(tmp_path / "in", "a")
    letters = DeadLetters(tmp_path / "letters")
    found = poisoned({"in": str(tmp_path / "in"), "other": str(tmp_path / "other")}, letters, 4)
    assert found.counts == {"in": 1}
    letters.publish(4, found.files)
    (letter,) = letters.table().to_pylist()
    assert (letter["node"], letter["kind"], letter["batch"]) == ("in", "Poison", 4)
    assert (letter["original"], letter["key"], letter["attempt"]) == (b"a", b"k", 3)
    got = read_row(letter["input"])
    assert got.schema.equals(UNDECODED)
    assert got["value"].to_pylist() == [b"a"]


def test_a_death_before_the_segment_is_gone_makes_no_second_letter(tmp_path):
    put(tmp_path, "a")
    letters = DeadLetters(tmp_path / "letters")
    letters.publish(4, poisoned({"in": str(tmp_path)}, letters, 4).files)
    again = poisoned({"in": str(tmp_path)}, letters, 4)
    letters.publish(4, again.files)
    again.published()
    assert ids(letters) == ["a"]
    assert poisoned({"in": str(tmp_path)}, letters, 5).files == {}


def test_a_replay_that_finds_another_keeps_the_one_before(tmp_path):
    letters = DeadLetters(tmp_path / "letters")
    for name in ("a", "b"):
        put(tmp_path, name)
        found = poisoned({"in": str(tmp_path)}, letters, 4)
        letters.publish(4, found.files)
        found.published()
    assert sorted(ids(letters)) == ["a", "b"]
