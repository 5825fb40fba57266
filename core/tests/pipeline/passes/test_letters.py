"""The sink that dead letters go to."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as pen
from penstock.contracts.errors import OptionError, SchemaError, UnknownNameError


def flow(sink: str, **options: Any) -> pen.Flow:
    line = pen.pipeline("p").source("generator", rows=10).sink("once")
    return line.on_error("dead-letter", sink=sink, options=options)


def test_without_a_name_they_stay_under_the_checkpoint() -> None:
    line = pen.pipeline("p").source("generator", rows=10).sink("once")
    assert line.analyse().dead_letters is None


def test_any_sink_takes_them_and_explain_says_so() -> None:
    assert "dead letters go to once too\n" in flow("once").explain()
    assert "dead letters go to stdout too, at-least-once" in flow("stdout").explain()
    assert flow("bytesink").analyse().dead_letters.what == "bytesink"


def test_a_node_of_the_same_name_does_not_clash() -> None:
    line = pen.pipeline("p").source("generator", rows=10).sink("once", name="dead-letters")
    stage = line.on_error("dead-letter", sink="once").analyse().dead_letters
    assert stage.name == "dead-letters-2"


def test_a_sink_that_is_not_installed_or_cannot_be_written_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="nowhere"):
        flow("nowhere").analyse()
    with pytest.raises(Exception, match="cannot be written"):
        flow("generator", rows=1).analyse()
    with pytest.raises(OptionError, match="is unknown") as caught:
        flow("stdout", colour="red").analyse()
    assert "dead-letters" in str(caught.value)


def test_a_sink_that_takes_neither_columns_nor_bytes_is_refused() -> None:
    with pytest.raises(SchemaError, match="only pictures") as caught:
        flow("pictures").analyse()
    assert "dead-letters" in str(caught.value)
