"""Ends that are Spark's own, as declared and analysed: no Spark here."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml

import penstock as pen
from core.tests.pipeline import functions as fn
from penstock.contracts.errors import (
    DeclareError,
    GraphError,
    GuaranteeError,
    OptionError,
    TypeMismatchError,
)
from penstock.pipeline.ends import FormatSink, FormatSource
from penstock.pipeline.schema import document_schema


class Frame:
    """Stands for a DataFrame where nobody looks inside."""

    isStreaming = True  # noqa: N815


def orders(**options: Any) -> pen.Flow:
    return pen.pipeline("p").source(
        "spark", format="parquet", path="in", schema="id long, total double", **options
    )


def test_the_three_forms_of_spark_ends_are_equal() -> None:
    fluent = (
        orders(stream=True, options={"maxFilesPerTrigger": 1})
        .sink("spark", format="delta", path="out", options={"mergeSchema": True})
        .sink(fn.write_frame)
    )
    arrows = pen.pipeline(
        "p",
        pen.source(
            "spark",
            format="parquet",
            path="in",
            schema="id long, total double",
            stream=True,
            options={"maxFilesPerTrigger": 1},
        )
        >> pen.sink("spark", format="delta", path="out", options={"mergeSchema": True})
        >> pen.sink(fn.write_frame),
    )
    assert arrows == fluent
    assert pen.from_yaml(fluent.to_yaml()) == fluent
    assert fluent.graph.nodes[-1].name == "write_frame"
    jsonschema.validate(yaml.safe_load(fluent.to_yaml()), document_schema())


def test_a_dataframe_and_a_nameless_function_cannot_stand_in_a_file() -> None:
    with pytest.raises(DeclareError, match="cannot be written to YAML"):
        pen.pipeline("p").source(Frame()).sink("stdout").to_yaml()
    with pytest.raises(DeclareError, match="has no import path"):
        orders().sink(lambda frame, batch: None).to_yaml()


@pytest.mark.parametrize("given", [7, object(), None])
def test_what_is_no_source_and_what_is_no_sink_is_refused(given: object) -> None:
    with pytest.raises(DeclareError, match="this is no source"):
        pen.pipeline("p").source(given)
    with pytest.raises(DeclareError, match="this is no sink"):
        orders().sink(given)


def test_explain_shows_that_spark_reads_and_what_is_staged() -> None:
    text = orders(stream=True).map(fn.enrich).sink("spark", format="parquet", path="out").explain()
    assert "spark  spark [id, total]" in text
    assert "writer >> [id, total] enrich" in text
    assert "Spark's stream" in text
    assert "at-least-once, a batch written again is there twice" in text
    assert "batches are staged, Spark writes it" in text
    assert "read once" in orders().sink("stdout").explain()


def test_exactly_once_is_kept_where_the_user_states_what_spark_cannot_say() -> None:
    with pytest.raises(GuaranteeError, match="Spark reads it") as caught:
        orders().sink("once").guarantee("exactly-once").analyse()
    assert "replayable=True" in str(caught.value.fix)
    source = orders(replayable=True)
    with pytest.raises(GuaranteeError, match="there twice") as caught:
        source.sink("spark", format="parquet", path="o").guarantee("exactly-once").analyse()
    assert "{batch}" in str(caught.value.fix)
    with pytest.raises(GuaranteeError, match="there twice") as caught:
        source.sink(fn.write_frame).guarantee("exactly-once").analyse()
    assert "idempotent=True" in str(caught.value.fix)
    for kept in (
        source.sink("once"),
        source.sink("spark", format="parquet", path="o/{batch}", mode="overwrite"),
        source.sink(fn.write_frame, idempotent=True),
    ):
        assert kept.guarantee("exactly-once").analyse().guarantee == "exactly-once"


def test_batches_that_would_replace_each_other_are_refused() -> None:
    flow = orders(stream=True).sink("spark", format="parquet", path="o", mode="overwrite")
    with pytest.raises(GraphError, match="replace the one before") as caught:
        flow.analyse()
    assert "{batch}" in str(caught.value.fix)
    orders().sink("spark", format="parquet", path="o", mode="overwrite").analyse()


def test_state_over_what_is_read_once_is_refused() -> None:
    with pytest.raises(GraphError, match="deduplicate keeps state over a stream") as caught:
        orders().deduplicate("id").sink("stdout").analyse()
    assert "stream=True" in str(caught.value.fix)
    orders(stream=True).deduplicate("id").sink("stdout").analyse()


def test_a_sink_that_spark_writes_has_no_place_and_its_source_no_parallelism() -> None:
    with pytest.raises(GraphError, match="has no place"):
        orders().sink("spark", format="parquet", path="o", on="driver").analyse()
    with pytest.raises(GraphError, match="finds its own parallelism"):
        orders(parallelism=3).sink("stdout").analyse()


def test_limits_that_do_not_bind_spark_are_told() -> None:
    notes = orders(stream=True).limits(max_rows=5).sink("stdout").analyse().notes
    assert "spark: max_rows do not bind what Spark reads" in notes


def test_bytes_must_be_named_to_be_decoded() -> None:
    kafka = {"format": "kafka", "stream": True}
    with pytest.raises(TypeMismatchError, match="cannot take what spark gives"):
        pen.source("spark", **kafka).decode("json", schema="id long").sink("stdout").analyse()
    named = pen.source("spark", **kafka, value="value").decode("json", schema="id long")
    assert "[bytes] decode-json [id]" in named.sink("stdout").explain()


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(OptionError, match="path and table exclude"):
        FormatSink(format="delta", path="a", table="b")
    with pytest.raises(OptionError, match="three columns"):
        FormatSource(format="kafka", stamp=["topic"])
    with pytest.raises(OptionError, match="format is missing"):
        pen.source("spark", path="x").sink("stdout").analyse()
    with pytest.raises(OptionError, match="unknown") as caught:
        pen.source("spark", formt="parquet").sink("stdout").analyse()
    assert caught.value.fix == "did you mean 'format'?"
