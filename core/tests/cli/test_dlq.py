"""`penstock dlq` as a user types it; only a replay needs Spark."""

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock.contracts.envelope import ERROR, PEN_FIELD, TIMESTAMP, pen
from penstock.pipeline.document import from_yaml
from penstock.pipeline.work import one_row
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.deadletters import DeadLetters
from penstock.spark.letters import Letters

GOT = one_row(pa.RecordBatch.from_pydict({"n": [7], "word": ["a\u00df"], "event_time": [None]}))


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
        nothing | {"node": "out", "kind": "Rejected", "message": "too long", "input": GOT},
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


def test_a_letter_without_its_bytes_says_why_and_shows_what_the_node_got(run, checkpoint):
    listed = json.loads(run("list", "--checkpoint", checkpoint, "--json").stdout)
    shown = run("show", "--checkpoint", checkpoint, listed[1]["letter"]).stdout
    assert "original: none: the source gives columns, or a large record became many" in shown
    assert 'input: {"n": 7, "word": "a\u00df"}' in shown


def pipeline_file(tmp_path, customer):
    file = tmp_path / "orders.yaml"
    file.write_text(f"""\
name: orders
source: {{generator: {{rows: 20, seed: 7}}}}
steps:
  - decode: {{json: {{schema: "id long, customer string"}}}}
  - where: id < 3
  - cast: {{columns: {{customer: {customer}}}}}
sink: {{localfile: {{path: {tmp_path / "out"}}}}}
""")
    return file


@pytest.mark.spark
def test_letters_are_replayed_through_the_mended_pipeline(run, spark, tmp_path):
    place = tmp_path / "state"
    from_yaml(pipeline_file(tmp_path, "long")).run(checkpoint=place, spark=spark)
    assert len(json.loads(run("list", "--checkpoint", place, "--json").stdout)) == 3
    again = run("replay", "--checkpoint", place, tmp_path / "orders.yaml")
    assert again.stdout == "3 replayed, 3 failed again\n", again.output

    mended = pipeline_file(tmp_path, "string")
    other = run("replay", "--checkpoint", place, mended, "--node", "where", "--json")
    assert json.loads(other.stdout) == {"replayed": 0, "failed": 0}
    done = run("replay", "--checkpoint", place, mended)
    assert (done.exit_code, done.stdout) == (0, "3 replayed, 0 failed again\n"), done.output
    files = [f for f in (tmp_path / "out").iterdir() if f.is_file() and f.name[0] not in "._"]
    written = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted(order["id"] for order in written) == [0, 1, 2]
    assert "no dead letters wait" in run("list", "--checkpoint", place).stdout


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
