"""A message that stops its pipeline again and again ends as a dead letter like any other."""

import json
from contextlib import suppress

import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock.contracts.errors import RunError
from penstock.pipeline.document import from_yaml

from .conftest import Place

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(300)]
BAD = json.dumps({"n": "seven"})
HEALTHY = [json.dumps({"n": str(n)}) for n in range(12)]


@pytest.fixture
def out(rabbitmq):
    return Place(rabbitmq)


@pytest.fixture
def dlq():
    def run(*arguments):
        done = CliRunner().invoke(main, ["dlq", *map(str, arguments), "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return run


@pytest.fixture
def flow(place, out, tmp_path):
    """The pipeline's file, with a condition that Spark fails on, or one that it does not."""

    def make(delivery, number):
        file = tmp_path / "flow.yaml"
        file.write_text(f"""\
name: poisoned
bounded: true
source:
  amqp: {{url: "{place.server.url}", queue: {place.queue}, max_rows: 12, poison: 2, delivery: {delivery}}}
  name: in
steps:
  - decode: {{json: {{schema: "n string"}}}}
  - where: {number} >= 0
  - encode: json
sink: {{amqp: {{url: "{place.server.url}", routing_key: {out.queue}}}}}
dead_letters: {{localfile: {{path: {tmp_path / "letters"}}}}}
""")
        return file

    return make


def bodies(place):
    """What arrived; a batch that fails may have sent some of its messages before."""
    return {json.loads(body)["n"] for _, _, body in place.take()}


def until_it_passes(run):
    """Start again and again, as an operator does; the last one's handle."""
    for _ in range(12):
        with suppress(RunError):
            return run()
    raise AssertionError("it fails for ever")


@pytest.mark.parametrize("delivery", ["optimistic", "pessimistic"])
def test_poison_is_listed_shown_and_replayed_like_any_dead_letter(
    spark, place, out, flow, dlq, tmp_path, delivery
):
    place.send(*HEALTHY[:5], BAD, *HEALTHY[5:], headers={"from": "here"})
    state = tmp_path / "state"
    broken = flow(delivery, "cast(n as int)")
    handle = until_it_passes(lambda: from_yaml(broken).run(checkpoint=state, spark=spark))
    assert bodies(out) == {json.loads(body)["n"] for body in HEALTHY}
    assert place.depth() == 0, "the broker has forgotten it"
    assert handle.counts()["in"].errors == 1

    (listed,) = dlq("list", "--checkpoint", state)
    assert (listed["node"], listed["kind"], listed["id"]) == ("in", "Poison", BAD)
    shown = dlq("show", "--checkpoint", state, listed["letter"])
    assert shown["original"] == BAD
    assert shown["attempt"] >= 2
    assert str(shown["attempt"]) in shown["message"]
    assert place.queue in shown["stamp"]["origin"]
    assert "from" in {header["key"] for header in shown["headers"]}
    assert shown["at"]
    (told,) = [
        json.loads(line)
        for file in (tmp_path / "letters").glob("part-*")
        for line in file.read_text().splitlines()
    ]
    assert told["letter"] == listed["letter"], "the sink for dead letters has it too"
    assert not list(state.rglob("poison/*.seg"))

    mended = flow(delivery, "coalesce(try_cast(n as int), 0)")
    assert dlq("replay", "--checkpoint", state, mended) == {"replayed": 1, "failed": 0}
    assert bodies(out) == {"seven"}
    assert dlq("list", "--checkpoint", state) == []
