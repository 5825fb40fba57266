"""Pipelines as YAML: equal to the other forms, round trip, and every mistake with its place."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import penstock as pen
from core.tests.pipeline.functions import enrich, is_big, keep, priced
from penstock.contracts.errors import DeclareError, DocumentError

HERE = "core.tests.pipeline.functions"
LINE = f"""\
name: orders
source:
  generator: {{rows: 1000, seed: 7}}
steps:
  - decode: {{json: {{schema: "id long, total double"}}}}
  - where: total > 100
  - map: {HERE}:enrich
  - key_by: id
sink: {{stdout: {{limit: 5}}, on: driver}}
guarantee: at-least-once
limits: {{max_rows: 100, max_wait: 5 s}}
"""


def line() -> pen.Flow:
    return (
        pen.pipeline("orders")
        .source("generator", rows=1000, seed=7)
        .decode("json", schema="id long, total double")
        .where("total > 100")
        .map(enrich)
        .key_by("id")
        .sink("stdout", limit=5, on="driver")
        .guarantee("at-least-once")
        .limits(max_rows=100, max_wait=5.0)
    )


def everything() -> pen.Flow:
    web = pen.source("generator", name="web", rows=5, parallelism=3).decode(
        "json", schema="id long, total double", name="decode-web"
    )
    shop = pen.source("generator", name="shop", rows=5).decode(
        "json", schema="id long, total double"
    )
    both = (
        web.merge(shop)
        .map_batches(keep)
        .flat_map(enrich, on_error={"action": "skip", "retries": 1})
        .concurrent_map(enrich, lanes=4, key="id")
        .rename({"id": "ident"})
        .cast({"ident": "int"})
        .validate(required=["ident"])
        .sample(0.5, seed=3)
        .peek(limit=2)
        .event_time("total", watermark="10 minutes")
        .deduplicate("ident", horizon="2 hours")
        .apply(enrich)
        .select("ident", "round(total, 2) AS total")
    )
    big, rest = both.branch(is_big)
    return pen.pipeline(
        "everything",
        big.encode("json").sink("bytesink"),
        rest.explode("total", into="each").mirror().sink("stdout", on="driver").sink("once"),
    ).on_error("stop")


def test_the_yaml_of_a_line_equals_the_fluent_form() -> None:
    assert pen.from_yaml(LINE) == line()


def test_a_line_is_written_as_a_line_and_read_back() -> None:
    written = line().to_yaml()
    assert "nodes:" not in written
    assert pen.from_yaml(written) == line()


def test_every_step_survives_the_round_trip() -> None:
    written = everything().to_yaml()
    assert "nodes:" in written
    assert pen.from_yaml(written) == everything()
    assert pen.from_yaml(written).to_yaml() == written


def test_names_that_differ_from_the_made_up_ones_are_written() -> None:
    flow = pen.pipeline("p").source("generator", name="in").map(enrich, name="m").sink("stdout")
    assert pen.from_yaml(flow.to_yaml()) == flow


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(LINE)
    assert pen.from_yaml(file) == pen.from_yaml(str(file)) == line()


def test_on_is_a_word_and_no_truth_value() -> None:
    assert pen.from_yaml(LINE).graph["stdout"].on == "driver"


def test_references_stay_references() -> None:
    text = "name: p\nsource: {amqp-queue: {queue: '${env:QUEUE}', password: '${file:/pw}'}}\nsink: {stdout: }\n"
    flow = pen.from_yaml(text)
    assert flow.graph["amqp-queue"].args["queue"] == "${env:QUEUE}"
    assert pen.from_yaml(flow.to_yaml()) == flow


def test_functions_are_named_by_their_import_path() -> None:
    flow = pen.pipeline("p").source("generator").map(priced).sink("stdout")
    assert f"map: {HERE}:priced" in flow.to_yaml()


@pytest.mark.parametrize("function", [lambda r: r, type("Local", (), {"__call__": enrich})()])
def test_a_function_without_an_import_path_is_a_clear_error(function: Any) -> None:
    flow = pen.pipeline("p").source("generator").map(function, name="odd").sink("stdout")
    with pytest.raises(DeclareError, match="has no import path") as refused:
        flow.to_yaml()
    assert refused.value.who == "odd"
    assert "move it to a module" in str(refused.value.fix)


def test_a_literal_secret_is_not_written() -> None:
    flow = pen.pipeline("p").source("amqp-queue", queue="q", password="canary").sink("stdout")
    with pytest.raises(DeclareError, match="not written to a file") as refused:
        flow.to_yaml()
    assert "canary" not in str(refused.value)


def test_a_value_that_yaml_lacks_is_a_clear_error() -> None:
    flow = pen.pipeline("p").source("generator", rows=object()).sink("stdout")
    with pytest.raises(DeclareError, match="cannot be written to YAML"):
        flow.to_yaml()


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("name: x\nsource: [", ":2:10", "not readable as YAML"),
        ("name: x\n\tsource: y\n", ":2:1", "not readable as YAML"),
        ("name: x\nname: y\n", ":2:1", "stands here twice"),
        ("- a\n- b\n", ":1:1", "a pipeline is a mapping"),
        ("name: x\nsorce: {generator: }\n", ":2:1", "a pipeline has no sorce"),
        ("name: x\nsource: {generator: }\n", ":1:1", "no sink"),
        ("name: x\nsink: {stdout: }\n", ":1:1", "no source"),
        ("source: {generator: }\nsink: {stdout: }\n", ":1:1", "the pipeline has no name"),
        (
            "name: x\nsource: {generator: }\nsink: {stdout: }\nsteps: where\n",
            ":4:1",
            "steps is a list",
        ),
        (
            "name: x\nsource: {generator: }\nsink: {stdout: }\nsteps:\n- {where: a, select: b}\n",
            ":5:14",
            "a step has one name",
        ),
        (
            "name: x\nsource: {generator: }\nsink: {stdout: }\nsteps:\n- map: lambda r\n",
            ":5:3",
            "a function is wanted",
        ),
        (
            "name: x\nsource: {generator: }\nsink: {stdout: }\nsteps:\n- {peek: , parallelism: -1}\n",
            ":5:4",
            "a count of tasks",
        ),
        ("name: x\nsource: {generator: 5}\nsink: {stdout: }\n", ":2:10", "are a mapping"),
        ("name: x\nsource: 5\nsink: {stdout: }\n", ":2:1", "a name with its options"),
        ("name: x\nnodes: {}\n", ":2:1", "nodes is a list"),
        ("name: x\nnodes:\n- where\n", ":3:3", "a node is a mapping"),
        ("name: x\nnodes: [{}]\nsteps: []\n", ":3:1", "exclude each other"),
        ("name: x\nnodes:\n- {name: a, from: [1], where: x}\n", ":3:13", "from names the nodes"),
        (LINE.replace("at-least-once", "once"), ":10:1", "no such guarantee"),
        (LINE.replace("max_rows", "max_row"), ":11:1", "there is no limit max_row"),
        (LINE + "on_error: explode\n", ":12:1", "no way to handle an error"),
        (LINE + "bounded: perhaps\n", ":12:1", "bounded is true or false"),
    ],
)
def test_a_mistake_is_told_with_line_and_column(text: str, place: str, said: str) -> None:
    with pytest.raises(DeclareError) as refused:
        pen.from_yaml(text)
    assert said in str(refused.value)
    assert f"<text>{place}" in str(refused.value)


def test_a_missing_file_is_told_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="no such pipeline file") as refused:
        pen.from_yaml(tmp_path / "none.yaml")
    assert str(tmp_path / "none.yaml") in str(refused.value)


def test_a_folder_is_no_pipeline_file(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot be read"):
        pen.from_yaml(tmp_path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_bytes(b"name: \xff\xfe\n")
    with pytest.raises(DocumentError, match="not UTF-8"):
        pen.from_yaml(tmp_path / "p.yaml")


def test_tags_that_would_run_code_are_refused() -> None:
    text = "name: x\nsource: !!python/object/apply:os.system ['true']\nsink: {stdout: }\n"
    with pytest.raises(DocumentError, match="not readable as YAML"):
        pen.from_yaml(text)


def test_a_graph_is_read_from_nodes() -> None:
    flow = pen.from_yaml(
        dedent("""\
        name: g
        nodes:
          - name: in
            source: {generator: {rows: 1}}
          - {name: big, from: in, branch: {when: "true"}}
          - {name: rest, from: in, branch: {unless: "true"}}
          - {name: all, from: [big, rest], merge: {}}
          - {name: out, from: all, sink: {stdout: {}}, on: driver}
        """)
    )
    assert flow.graph["all"].inputs == ("big", "rest")
    assert flow.graph["out"].on == "driver"
