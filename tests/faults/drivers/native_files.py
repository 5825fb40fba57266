"""Parquet files that Spark reads itself, archived once they are durable; killed by its test."""

import sys

import penstock as pen
from penstock.conformance.kill import stand_by


def main(folder):
    flow = (
        pen.pipeline("native")
        .source(
            "localfile",
            path=f"{folder}/in",
            format="parquet",
            schema="id STRING",
            max_files=2,
            after="archive",
        )
        .bounded()
        .select("id", "_pen.stamp.part AS part", "_pen.stamp.position AS position")
        .sink("localfile", path=f"{folder}/out", format="json")
    )
    spark = pen.session()
    stand_by()
    flow.run(checkpoint=f"{folder}/state", spark=spark)


if __name__ == "__main__":
    main(sys.argv[1])
