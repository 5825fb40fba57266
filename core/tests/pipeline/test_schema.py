"""The JSON Schema of pipeline files takes what the reader takes, and refuses what it refuses."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema
import pytest
import yaml

from core.tests.pipeline.test_document import everything, line
from penstock.pipeline.loading import load
from penstock.pipeline.schema import document_schema


@pytest.fixture
def checker() -> Any:
    return _checker()


@cache
def _checker() -> Any:
    schema = document_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("flow", [line, everything])
def test_what_is_written_is_valid(flow: Any, checker: Any) -> None:
    checker.validate(load(flow().to_yaml(), "text"))


def test_short_forms_are_valid(checker: Any) -> None:
    checker.validate(
        yaml.safe_load(
            "{name: p, source: generator, sink: {stdout: }, "
            "steps: [{decode: json}, {where: a > 1}, peek, {select: 'a, b'}, {map: 'm:f'}, "
            "{tag-filter: 5}, {rename: {a: b}}, {deduplicate: }]}"
        )
    )


@pytest.mark.parametrize(
    "wrong",
    [
        "{name: p}",
        "{source: generator, sink: stdout}",
        "{name: p, source: generator, sink: stdout, extra: 1}",
        "{name: p, source: nosuch, sink: stdout}",
        "{name: p, source: {generator: {rowz: 1}}, sink: stdout}",
        "{name: p, source: {amqp-queue: {}}, sink: stdout}",
        "{name: p, source: generator, sink: stdout, steps: [{nosuch: 1}]}",
        "{name: p, source: generator, sink: stdout, steps: [{map: not a path}]}",
        "{name: p, source: generator, sink: stdout, guarantee: once}",
        "{name: p, source: generator, sink: {stdout: , on: moon}}",
        "{name: p, source: generator, sink: stdout, on_error: explode}",
    ],
)
def test_what_the_reader_refuses_is_not_valid(wrong: str, checker: Any) -> None:
    assert not checker.is_valid(yaml.safe_load(wrong))
