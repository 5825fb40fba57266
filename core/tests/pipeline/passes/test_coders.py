"""Coders where types change, at the latest point; mismatches with both nodes named."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as pen
from core.tests.pipeline import functions as fn
from penstock.contracts import Bytes, Columns, Objects
from penstock.contracts.errors import SchemaError, TypeMismatchError
from penstock.pipeline.codec import LateCoder
from penstock.pipeline.plan import Stage

ORDERS = "id long, total double"


def line() -> pen.Flow:
    return pen.pipeline("p").source("generator", rows=10)


def orders() -> pen.Flow:
    return line().decode("json", schema=ORDERS)


def typed(flow: pen.Flow) -> dict[str, Stage]:
    [phase] = [p for p in flow.analyse().phases if p.name == "coders"]
    return {stage.name: stage for stage in phase.stages}


def test_objects_are_decoded_right_before_and_encoded_right_after() -> None:
    found = typed(line().where("true").step("tag-filter", 1).sink("stdout"))
    assert list(found) == ["generator", "where", "tag-decode", "tag-filter", "tag-encode", "stdout"]
    assert found["tag-filter"].takes == Objects("node")
    assert found["stdout"].takes == Bytes()


def test_two_steps_over_objects_share_one_decoder() -> None:
    found = typed(line().step("tag-filter", 1).step("tag-filter", 2).sink("stdout"))
    assert list(found) == [
        "generator",
        "tag-decode",
        "tag-filter",
        "tag-filter-2",
        "tag-encode",
        "stdout",
    ]


def test_objects_with_two_readers_are_encoded_once() -> None:
    found = typed(line().step("tag-filter", 1).sink("stdout").sink("once"))
    assert [found[n].inputs for n in ("stdout", "once")] == [("tag-encode",), ("tag-encode",)]


def test_objects_are_decoded_anew_after_a_change_of_place() -> None:
    found = typed(line().step("tag-filter", 1).step("tag-filter", 2, parallelism=4).sink("stdout"))
    assert list(found) == [
        "generator",
        "tag-decode",
        "tag-filter",
        "tag-encode",
        "split",
        "tag-decode-2",
        "tag-filter-2",
        "tag-encode-2",
        "stdout",
    ]


def test_a_sink_of_bytes_gets_the_coder_that_decoded() -> None:
    found = typed(orders().where("true").sink("bytesink"))
    assert list(found)[-2:] == ["json-encode", "bytesink"]
    assert found["bytesink"].takes == Bytes()


def test_an_explicit_encoder_needs_no_schema() -> None:
    encoded = typed(orders().map(fn.priced).encode("json").sink("bytesink"))["encode-json"]
    assert encoded.work.schema().names == ["id", "total", "tax"]


def test_an_encoder_after_unknown_columns_waits_for_them() -> None:
    found = typed(orders().select("id * 2 AS twice").encode("json").sink("bytesink"))
    assert found["select"].gives == Columns(None)
    assert type(found["encode-json"].work).__name__ == "LateCoder"


def test_a_sink_of_bytes_after_an_expression_gets_the_coder_that_decoded_too() -> None:
    flow = orders().select("id", "total * 2 AS twice").where("twice > 3")
    found = typed(flow.sink("bytesink"))
    assert list(found)[-2:] == ["json-encode", "bytesink"]
    assert isinstance(found["json-encode"].work, LateCoder)
    assert "json-encode" not in typed(orders().select("hex(id) AS value").sink("bytesink"))


def test_a_sink_that_cannot_take_an_expressions_columns_whatever_their_types_is_told() -> None:
    flow = pen.pipeline("p").source("onefile").select("line", "number * 2 AS twice", name="two")
    with pytest.raises(TypeMismatchError) as caught:
        flow.key_by("line").sink("bytesink").analyse()
    assert "bytesink cannot take what" in str(caught.value)
    assert "line string, twice" in str(caught.value)
    assert ".encode(" in str(caught.value)


def test_types_flow_through_steps() -> None:
    found = typed(orders().map(fn.priced).select("id", "tax AS t").rename({"t": "u"}).sink("once"))
    gives = found["rename"].gives
    assert isinstance(gives, Columns)
    assert gives.schema is not None
    assert gives.schema.names == ["id", "u", "event_time"]


@pytest.mark.parametrize(
    ("flow", "who", "said"),
    [
        (lambda: line().map(fn.priced).sink("once"), "priced", "what generator gives"),
        (
            lambda: orders().decode("json", schema="a int").sink("once"),
            "decode-json-2",
            "remove the decode",
        ),
        (lambda: line().encode("json").sink("once"), "encode-json", "what generator gives"),
        (
            lambda: orders().step("tag-filter", 1).sink("once"),
            "tag-filter",
            "what decode-json gives",
        ),
        (
            lambda: orders().rename({"total": "sum"}).map(fn.priced).sink("once"),
            "priced",
            "total (double) is missing",
        ),
        (
            lambda: orders().cast({"id": "string"}).map(fn.priced).sink("once"),
            "priced",
            "id is string, not int64",
        ),
        (
            lambda: pen.pipeline("p").source("onefile").sink("bytesink"),
            "bytesink",
            "cannot take what onefile gives: a queue takes bytes",
        ),
        (
            lambda: orders().merge(pen.source("generator", rows=1, name="b")).sink("once"),
            "merge",
            "records of different types",
        ),
        (
            lambda: (
                orders()
                .merge(pen.source("generator", name="b").decode("json", schema="id long", name="d"))
                .sink("once")
            ),
            "merge",
            "what d gives: id",
        ),
    ],
)
def test_a_mismatch_names_both_nodes(flow: Any, who: str, said: str) -> None:
    with pytest.raises(TypeMismatchError) as refused:
        flow().analyse()
    assert refused.value.who == who
    assert said in str(refused.value)


def test_a_column_that_is_not_there_is_told_by_its_step() -> None:
    with pytest.raises(SchemaError, match="rename has no column idd") as refused:
        orders().rename({"idd": "x"}).sink("once").analyse()
    assert refused.value.who == "rename"
    assert refused.value.fix == "did you mean 'id'?"


def test_objects_of_an_unknown_kind_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from core.tests.pipeline.standins import TagCoder

    monkeypatch.setattr(TagCoder, "type", "other")
    with pytest.raises(TypeMismatchError, match="no installed coder makes node objects"):
        line().step("tag-filter", 1).sink("stdout").analyse()
