"""A function that is not deterministic and sometimes fails, into two sinks; killed by its test."""

import random
import sys

import penstock as pen
from penstock.conformance.kill import stand_by

SCHEMA = "id string, number double"


def shake(record):
    if record["bad"]:
        raise ValueError(record["id"])
    return {"id": record["id"], "number": random.random()}


def main(folder):
    shaken = (
        pen.pipeline("two-sinks")
        .source("localfile", path=f"{folder}/in", max_files=2)
        .bounded()
        .decode("json", schema="id string, bad boolean")
        .map(shake, schema=SCHEMA)
    )
    flow = shaken.sink("localfile", name="left", path=f"{folder}/left").sink(
        "localfile", name="right", path=f"{folder}/right"
    )
    letters = {"path": f"{folder}/letters"}
    flow = flow.on_error("dead-letter", sink="localfile", options=letters)
    spark = pen.session()
    stand_by()
    flow.run(checkpoint=f"{folder}/state", spark=spark)


if __name__ == "__main__":
    main(sys.argv[1])
