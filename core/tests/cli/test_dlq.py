"""`penstock dlq` as a user types it, over letters that no Spark is needed for."""

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock.contracts.envelope import ERROR, PEN_FIELD, TIMESTAMP, pen
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.deadletters import DeadLetters
from penstock.spark.letters import Letters


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(main, ["dlq", *map(str, arguments)])


@pytest.fixture
def checkpoint(tmp_path):
    """A pipeline's checkpoint with two letters, of two nodes."""
    place = Checkpoint(str(tmp_path / "state"))
    place.claim("orders")
    nothing = dict.fromkeys(ERROR.names)
    errors = [
        nothing | {"node": "enrich", "kind": "ValueError", "message": "odd", "original": b"one"},
        nothing | {"node": "out", "kind": "Rejected", "message": "too long"},
    ]
    meta = pen(2, error=pa.array(errors, ERROR), id=pa.array(["a", "b"]))
    schema = pa.schema([pa.field("event_time", TIMESTAMP), PEN_FIELD])
    rows = pa.RecordBatch.from_arrays([pa.nulls(2, TIMESTAMP), meta], schema=schema)
    letters = Letters(str(place.dead_letters), 4)
    letters.add(rows)
    DeadLetters(place.dead_letters).publish(4, {"out": letters.close()})
    return tmp_path / "state"


def test_letters_are_listed_with_node_and_cause(run, checkpoint):
    done = run("list", "--checkpoint", checkpoint)
    assert done.exit_code == 0, done.output
    assert "enrich" in done.stdout
    assert "too long" in done.stdout
    listed = json.loads(run("list", "--checkpoint", checkpoint, "--json").stdout)
    assert [(each["node"], each["id"], each["batch"]) for each in listed] == [
        ("enrich", "a", 4),
        ("out", "b", 4),
    ]


def test_letters_of_one_node_are_listed(run, checkpoint):
    listed = json.loads(run("list", "--checkpoint", checkpoint, "--node", "out", "--json").stdout)
    assert [each["kind"] for each in listed] == ["Rejected"]
    assert "no dead letters wait" in run("list", "--checkpoint", checkpoint, "--node", "x").stdout


def test_one_letter_is_shown_in_full(run, checkpoint):
    listed = json.loads(run("list", "--checkpoint", checkpoint, "--json").stdout)
    name = listed[0]["letter"]
    shown = run("show", "--checkpoint", checkpoint, name).stdout
    assert "message: odd" in shown
    assert "original: one" in shown
    assert json.loads(run("show", "--checkpoint", checkpoint, name, "--json").stdout)["id"] == "a"


def test_a_letter_that_is_not_there_is_an_error_that_says_where_to_look(run, checkpoint):
    done = run("show", "--checkpoint", checkpoint, "4.nobody.0")
    assert done.exit_code == 2
    assert "penstock dlq list" in done.stderr


@pytest.mark.parametrize("command", [["list"], ["show", "1.a.0"], ["replay", "orders.yaml"]])
def test_a_folder_that_is_no_checkpoint_is_refused(run, tmp_path, command):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "orders.yaml").write_text(
        "name: orders\nsource: {generator: {}}\nsink: {stdout: {}}"
    )
    given = [str(tmp_path / each) if each.endswith("yaml") else each for each in command]
    done = run(given[0], "--checkpoint", tmp_path / "elsewhere", *given[1:])
    assert done.exit_code == 2, done.output
    assert "is no checkpoint of a pipeline" in done.stderr
    assert "--checkpoint" in done.stderr
    assert not list((tmp_path / "elsewhere").iterdir())
