"""What is declared against what the ends can keep."""

from __future__ import annotations

import pytest

import penstock as pen
from penstock.contracts.errors import GuaranteeError


def test_the_best_that_all_ends_keep_is_taken() -> None:
    line = pen.pipeline("p").source("generator", rows=1)
    assert line.sink("once").analyse().guarantee == "exactly-once"
    assert line.sink("once").sink("stdout").analyse().guarantee == "at-least-once"


def test_an_optimistic_queue_cannot_keep_exactly_once_and_the_error_says_what_would() -> None:
    flow = pen.pipeline("p").source("amqp-queue", queue="q").sink("once").guarantee("exactly-once")
    with pytest.raises(GuaranteeError, match="amqp-queue cannot keep exactly-once") as refused:
        flow.analyse()
    assert 'delivery="pessimistic" and unique_ids=True' in str(refused.value.fix)


def test_a_pessimistic_queue_needs_unique_ids() -> None:
    flow = pen.pipeline("p").source("amqp-queue", queue="q", delivery="pessimistic").sink("once")
    with pytest.raises(GuaranteeError, match="without unique ids"):
        flow.guarantee("exactly-once").analyse()


def test_a_pessimistic_queue_with_unique_ids_keeps_exactly_once() -> None:
    flow = pen.pipeline("p").source(
        "amqp-queue", queue="q", delivery="pessimistic", unique_ids=True
    )
    plan = flow.sink("once").guarantee("exactly-once").analyse()
    assert plan.guarantee == "exactly-once"


def test_a_sink_that_appends_cannot_keep_exactly_once() -> None:
    flow = pen.pipeline("p").source("generator", rows=1).sink("stdout").guarantee("exactly-once")
    with pytest.raises(GuaranteeError, match="stdout cannot keep exactly-once") as refused:
        flow.analyse()
    assert "idempotent" in str(refused.value.fix)


def test_every_end_that_falls_short_is_listed() -> None:
    flow = pen.pipeline("p").source("amqp-queue", queue="q").sink("stdout")
    with pytest.raises(GuaranteeError) as refused:
        flow.guarantee("exactly-once").analyse()
    assert "amqp-queue" in str(refused.value.got)
    assert "stdout" in str(refused.value.got)


def test_several_receivers_give_up_order_and_say_so() -> None:
    flow = pen.pipeline("p").source("amqp-queue", queue="q", receivers=3).sink("stdout")
    assert any("give up the order" in note for note in flow.analyse().notes)
