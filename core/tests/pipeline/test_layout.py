"""What deals records out to the tasks of a sink."""

from __future__ import annotations

import pytest

import penstock as pen
from core.tests.pipeline import functions as fn
from penstock.pipeline.layout import layout


def line() -> pen.Flow:
    source = pen.pipeline("p").source("generator", rows=10)
    return source.decode("json", schema="id long, total double")


def laid(flow: pen.Flow, sink: str = "by-task") -> str:
    plan = flow.analyse()
    return layout(plan, plan[sink])


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (lambda: line(), ""),
        (lambda: line().key_by("id"), "key_by id, split by key over all"),
        (lambda: line().key_by("total"), "key_by total, split by key over all"),
        (lambda: line().key_by(fn.is_big), "key_by is_big, split by key over all"),
        (lambda: line().where("true", parallelism=3), "split round robin over 3"),
    ],
)
def test_keys_and_splits_are_told(flow: pen.Flow, said: str) -> None:
    assert laid(flow().sink("by-task")) == said


def test_one_place_is_told() -> None:
    assert laid(line().sink("by-task", parallelism=1)) == "merge-sort"


def test_what_is_on_disk_lies_as_it_does() -> None:
    assert laid(line().map(fn.enrich).key_by("id").sink("by-task")) == ""
    forked = line().key_by("id").where("true")
    flow = forked.sink("once").map(fn.enrich).sink("by-task")
    assert laid(flow) == ""
    assert laid(forked.sink("once").where("true", parallelism=3).sink("by-task")) != ""
