"""Misuse that no other test provokes: each has a message that says what to do."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import penstock as pen
from core.tests.pipeline.rows import failed, stage, typed
from penstock.contracts.errors import (
    DeclareError,
    DocumentError,
    GuaranteeError,
    OptionError,
    RunError,
    SchemaError,
)
from penstock.pipeline.chain import Chain

LINE = "name: p\nsource: {generator: {rows: 1}}\n"


def orders() -> pen.Flow:
    return pen.pipeline("p").source("generator", rows=1).decode("json", schema="id long")


@dataclass
class Odd:
    id: int
    hook: object


def odd(record: Odd) -> Odd:
    return record


def test_a_field_that_no_column_can_hold_is_named_with_its_class() -> None:
    with pytest.raises(SchemaError, match="the field hook of Odd has a type that no column has"):
        orders().map(odd).sink("stdout").analyse()


def test_a_step_that_takes_no_argument_is_given_one() -> None:
    with pytest.raises(DeclareError, match="mirror takes no argument"):
        orders().step("mirror", "left")


def test_an_option_stands_twice() -> None:
    with pytest.raises(DeclareError, match="the option function is given twice"):
        orders().step("map", odd, function=odd)


def test_sinks_that_are_no_list_are_told_with_their_line() -> None:
    with pytest.raises(DocumentError, match="sinks is a list") as caught:
        pen.from_yaml(LINE + "sinks: {stdout: {}}\n")
    assert str(caught.value.who).endswith(":3:1")


def test_a_document_nested_without_end_is_refused() -> None:
    with pytest.raises(DocumentError, match="nested too deeply"):
        pen.from_yaml(LINE + "sink: " + "[" * 20_000 + "\n")


def test_a_plan_is_drawn_in_three_ways_only() -> None:
    with pytest.raises(DeclareError, match="cannot be drawn like this") as caught:
        orders().sink("stdout").explain("mermayd")  # type: ignore[arg-type]
    assert caught.value.fix == "did you mean 'mermaid'?"


def test_validate_needs_a_rule_and_branch_one_side() -> None:
    with pytest.raises(OptionError, match="validate has no rule"):
        orders().step("validate").sink("stdout").analyse()
    with pytest.raises(OptionError, match="branch takes when or unless") as caught:
        orders().step("branch", when="true", unless="true").sink("stdout").analyse()
    assert caught.value.got == "both"


def test_exactly_once_is_refused_by_the_node_that_cannot_keep_it() -> None:
    with pytest.raises(GuaranteeError, match="stdout cannot keep exactly-once"):
        orders().sink("stdout").guarantee("exactly-once").analyse()


def test_a_batch_function_that_drops_rows_and_their_time_fails_them() -> None:
    def halved(batch: pa.RecordBatch) -> Any:
        return batch.select(["n", "_pen"]).slice(0, batch.num_rows // 2)

    rows = typed([{"n": n} for n in range(4)], pa.schema([("n", pa.int64())]))
    out = Chain([stage("map_batches", function=halved)], rows.schema).apply(rows)
    messages = {each["error"]["message"].splitlines()[0] for each in failed(out)}
    assert messages == {"the function halved dropped the column event_time along with some rows"}


def test_a_coder_of_objects_gives_a_dataframe_nothing() -> None:
    from penstock.spark.interop import decode

    with pytest.raises(DeclareError, match="the coder tag gives no columns"):
        decode(None, "tag")  # type: ignore[arg-type]


def test_a_batch_that_does_not_end_in_time_is_told_when_stopping() -> None:
    from penstock.spark.handle import Handle

    plan = orders().sink("stdout").analyse()
    query = SimpleNamespace(isActive=True, awaitTermination=lambda: None)
    drain = SimpleNamespace(hold=lambda within: False)
    handle = Handle(plan, query, drain, None)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="did not finish within 1 s") as caught:
        handle.stop(within=1)
    assert "replayed" in str(caught.value.fix)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    import penstock.spark

    with pytest.raises(AttributeError, match="has no attribute 'nowhere'"):
        penstock.spark.nowhere  # noqa: B018
