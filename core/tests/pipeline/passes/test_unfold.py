"""A coder at an end of a pipeline is a step of its own, and the same as the step."""

from __future__ import annotations

import pytest

import penstock as pen
from penstock.contracts.errors import OptionError
from penstock.pipeline.passes.unfold import unfold

SCHEMA = "id long, total double"


def line() -> pen.Flow:
    return pen.pipeline("p")


def test_a_coder_of_a_source_is_a_decode_behind_it() -> None:
    short = line().source("generator", rows=5, coder="json", coder_options={"schema": SCHEMA})
    long = line().source("generator", rows=5).decode("json", schema=SCHEMA, name="generator-decode")
    finished = [each.where("total > 1").sink("stdout") for each in (short, long)]
    assert unfold(finished[0].graph) == finished[1].graph
    assert finished[0].explain() == finished[1].explain()


def test_a_coder_of_a_sink_is_an_encode_before_it() -> None:
    rows = line().source("generator", rows=5).decode("json", schema=SCHEMA)
    short = rows.sink("stdout", coder="csv", **{"coder.delimiter": ";"})
    long = rows.encode("csv", delimiter=";", name="stdout-encode").sink("stdout")
    assert unfold(short.graph) == long.graph


def test_every_reader_of_the_source_gets_columns() -> None:
    whole = line().source("generator", rows=5, coder="json", coder_options={"schema": SCHEMA})
    flow = whole.where("true", name="a").sink("stdout", name="one")
    flow = flow.also(whole.where("false", name="b").sink("stdout", name="two"))
    made = unfold(flow.graph)
    assert made["a"].inputs == made["b"].inputs == ("generator-decode",)
    assert made["generator-decode"].inputs == ("generator",)


def test_a_name_that_is_taken_gets_a_number() -> None:
    source = line().source("generator", rows=5, coder="json", coder_options={"schema": SCHEMA})
    flow = source.where("true", name="generator-decode").sink("stdout")
    assert [n.name for n in unfold(flow.graph)][1] == "generator-decode-2"


def test_what_names_no_coder_stays_as_it_is() -> None:
    flow = line().source("generator", rows=5).sink("stdout")
    assert unfold(flow.graph) is flow.graph


def test_options_without_a_coder_say_so() -> None:
    flow = line().source("generator", rows=5, **{"coder.schema": SCHEMA}).sink("stdout")
    with pytest.raises(OptionError, match="no coder") as caught:
        flow.analyse()
    assert "coder.schema" in str(caught.value)


def test_it_is_the_same_as_yaml_and_back() -> None:
    flow = (
        line()
        .source("generator", rows=5, coder="json", coder_options={"schema": SCHEMA})
        .sink("stdout", coder="json")
    )
    assert pen.from_yaml(flow.to_yaml()).graph == flow.graph
