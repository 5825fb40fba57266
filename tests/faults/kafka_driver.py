"""A topic copied into another one, exactly once; killed, frozen and cut off by its test."""

import json
import sys

import penstock as pen
from penstock.conformance.kill import stand_by


def main(spec):
    options = json.loads(spec)
    spark = pen.session()
    stand_by()
    flow = (
        pen.pipeline("copy")
        .source(
            "kafka",
            servers=options["servers"],
            topics=[options["source"]],
            max_rows=options["max_rows"],
            group_rows=0,
            timeout=40,
        )
        .bounded()
        .sink(
            "kafka",
            servers=options["servers"],
            topic=options["target"],
            transaction_timeout=options["transaction_timeout"],
            timeout=40,
        )
    )
    flow.run(checkpoint=options["checkpoint"], spark=spark)


if __name__ == "__main__":
    main(sys.argv[1])
