"""Runs a pipeline with every kind of segment and prints its plan and Spark's own plans."""

from __future__ import annotations

import json
import sys
from typing import Any

import penstock as pen
from core.tests.pipeline.functions import enrich, is_big
from penstock.spark.session import session


def flow(folder: str) -> pen.Flow:
    """Fused at both ends, Python between, shuffles, a fork, and a sink on the driver."""
    big, rest = (
        pen.pipeline("traced")
        .source("generator", rows=500)
        .decode("json", schema="id long, customer string, total double, at timestamp")
        .map(enrich, name="first")
        .where("total > 50")
        .map(enrich, name="middle")
        .key_by("customer")
        .where("id % 2 = 0", name="even")
        .branch(is_big)
    )
    return (
        big.encode("json")
        .sink("localfile", path=f"{folder}/out")
        .also(rest.map(enrich, name="last").sink("stdout", on="driver", limit=1))
    )


def main() -> None:
    """Run it; the last line of standard output is what the test reads."""
    folder = sys.argv[1]
    spark = session("local[2]", "traced")
    declared = flow(folder)
    declared.run(f"{folder}/state", spark=spark)
    store = spark._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]
    executions = store.executionsList()
    plans = [executions.apply(n).physicalPlanDescription() for n in range(executions.size())]
    told: dict[str, Any] = {"explained": json.loads(declared.explain("json")), "plans": plans}
    sys.stdout.write("\n" + json.dumps(told) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
