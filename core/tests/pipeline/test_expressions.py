"""What is seen of a Spark expression without Spark."""

from __future__ import annotations

import pytest

from penstock.pipeline.expressions import called, changing


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("total > 100", set()),
        ("Upper (name) = concat(a, lower(b))", {"upper", "concat", "lower"}),
        ("x = 'rand()' AND \"uuid()\" = `now()`", set()),
        ("x = 'it\\'s rand()' -- rand()\n + /* uuid() */ 1", set()),
        ("x = 'it''s' AND rand() > 0", {"rand"}),
    ],
)
def test_the_functions_of_an_expression_are_seen(expression: str, names: set[str]) -> None:
    assert called(expression) == names


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("rand() < 0.5", ["rand"]),
        ("RAND(7) < uuid()", ["rand", "uuid"]),
        ("at < current_timestamp - INTERVAL 1 DAY", ["current_timestamp"]),
        ("at < CURRENT_DATE() OR at < now()", ["current_date", "now"]),
        ("unix_timestamp( ) - 3", ["unix_timestamp()"]),
        ("unix_timestamp(at) > 3", []),
        ("spark_partition_id() = 0", ["spark_partition_id"]),
        ("brand(x) = rand AND upper(now) = 'x'", []),
    ],
)
def test_what_may_answer_otherwise_is_seen(expression: str, names: list[str]) -> None:
    assert changing(expression) == names
