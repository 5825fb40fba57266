"""Names and options become things, or an error that says who and what."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as pen
from core.tests.pipeline import functions as fn
from core.tests.pipeline.standins import StandInQueue, TagFilter
from penstock.contracts.errors import DeclareError, OptionError, PenstockError, UnknownNameError
from penstock.pipeline.passes.resolve import resolve
from penstock.pipeline.steps.frames import Where


def stages(flow: pen.Flow) -> dict[str, Any]:
    return {stage.name: stage for stage in resolve(flow.graph)}


def line() -> pen.Flow:
    return pen.pipeline("p").source("generator", rows=10)


def test_ends_and_steps_are_parsed() -> None:
    flow = (
        pen.pipeline("p")
        .source("amqp-queue", queue="q", delivery="pessimistic", password="x")
        .where("true")
        .step("tag-filter", 7)
        .sink("stdout", limit=3)
    )
    found = stages(flow)
    assert found["amqp-queue"].work == StandInQueue(queue="q", password="x")
    assert found["amqp-queue"].settings.delivery == "pessimistic"
    assert found["where"].work == Where(expression="true")
    assert found["tag-filter"].work == TagFilter(above=7)
    assert found["stdout"].work.limit == 3


def test_the_parallelism_of_a_source_goes_to_its_own_option() -> None:
    assert stages(line().sink("stdout"))["generator"].work.parallelism == 2
    wide = pen.pipeline("p").source("generator", rows=1, parallelism=5).sink("stdout")
    assert stages(wide)["generator"].work.parallelism == 5
    queue = pen.pipeline("p").source("amqp-queue", queue="q", parallelism=3).sink("stdout")
    assert stages(queue)["amqp-queue"].settings.receivers == 3


def test_a_policy_of_the_pipeline_holds_where_a_node_has_none() -> None:
    flow = line().map(fn.enrich).map(fn.enrich, on_error="skip").sink("stdout").on_error("stop")
    found = stages(flow)
    assert found["enrich"].policy.action == "stop"
    assert found["enrich-2"].policy.action == "skip"


@pytest.mark.parametrize(
    ("first", "other", "tells"),
    [
        ("dead-letter", "dead-letter", False),
        ("skip", "skip", False),
        ("stop", "stop", False),
        ("dead-letter", "skip", False),
        ("stop", "dead-letter", False),
        ("skip", "dead-letter", True),
        ("dead-letter", "stop", True),
    ],
)
def test_one_side_of_a_fork_reports_failures_unless_the_other_says_more(
    first: str, other: str, tells: bool
) -> None:
    at = line()
    yes = at.step("branch", when=fn.is_big, name="yes", on_error=first)
    no = at.step("branch", unless=fn.is_big, name="no", on_error=other)
    found = stages(yes.sink("stdout").also(no.sink("once")))
    assert found["yes"].work.tells
    assert found["no"].work.tells is tells
    assert found["no"].policy.action == other


def test_a_lone_side_reports_too() -> None:
    _, no = line().branch(fn.is_big)
    assert stages(no.sink("stdout"))["branch-else"].work.tells


@pytest.mark.parametrize(
    ("flow", "error", "said"),
    [
        (
            lambda: pen.pipeline("p").source("genrator").sink("stdout"),
            UnknownNameError,
            "'generator'?",
        ),
        (lambda: line().sink("stdot"), UnknownNameError, "did you mean 'stdout'?"),
        (
            lambda: line().step("wher", "x").sink("stdout"),
            UnknownNameError,
            "did you mean 'where'?",
        ),
        (lambda: line().step("frobnicate").sink("stdout"), UnknownNameError, "no step named"),
        (lambda: line().decode("jsonn").sink("stdout"), UnknownNameError, "did you mean 'json'?"),
        (lambda: pen.pipeline("p").source("stdout").sink("stdout"), DeclareError, "cannot be read"),
        (lambda: line().sink("generator"), DeclareError, "cannot be written"),
        (lambda: line().sink("stdout", limt=3), OptionError, "did you mean 'limit'?"),
        (
            lambda: pen.pipeline("p").source("amqp-queue").sink("stdout"),
            OptionError,
            "queue is missing",
        ),
        (lambda: line().sink("stdout", limit="many"), OptionError, "limit has the wrong type"),
        (
            lambda: line().map(fn.enrich, shema="x").sink("stdout"),
            OptionError,
            "did you mean 'schema'?",
        ),
        (lambda: line().step("where").sink("stdout"), OptionError, "expression is missing"),
        (lambda: line().decode("json").sink("stdout"), OptionError, "needs one schema"),
        (lambda: line().decode("json", schema="id lng").sink("stdout"), PenstockError, "lng"),
        (lambda: line().map("nowhere:f").sink("stdout"), DeclareError, "cannot be imported"),
        (
            lambda: line().map("core.tests.pipeline.functions:NOT_A_FUNCTION").sink("stdout"),
            DeclareError,
            "is not a function",
        ),
        (
            lambda: pen.pipeline("p").source("onefile", parallelism=3).sink("stdout"),
            PenstockError,
            "finds its own parallelism",
        ),
        (
            lambda: line().deduplicate(parallelism=3).sink("stdout"),
            PenstockError,
            "as many tasks as Spark's shuffle has",
        ),
    ],
)
def test_what_cannot_be_resolved_is_told(flow: Any, error: Any, said: str) -> None:
    with pytest.raises(error) as refused:
        resolve(flow().graph)
    assert said in str(refused.value)
    assert refused.value.who
    assert refused.value.exit_code == 2


def test_an_error_names_node_and_distribution() -> None:
    flow = pen.pipeline("p").source("amqp-queue", name="orders", queu="q").sink("stdout")
    with pytest.raises(OptionError) as refused:
        resolve(flow.graph)
    assert refused.value.who == "orders (penstock-standins 1.0)"


def test_a_secret_never_shows_in_an_error() -> None:
    flow = pen.pipeline("p").source("amqp-queue", queue="q", password="canary", x=1).sink("stdout")
    with pytest.raises(OptionError) as refused:
        resolve(flow.graph)
    assert "canary" not in str(refused.value)
