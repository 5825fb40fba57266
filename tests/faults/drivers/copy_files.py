"""Lines from files to files, streaming; killed by its test."""

import sys

import penstock as pen
from penstock.conformance.kill import stand_by


def main(folder):
    flow = (
        pen.pipeline("copy")
        .source("localfile", path=f"{folder}/in", max_files=2)
        .bounded()
        .sink("localfile", path=f"{folder}/out")
    )
    spark = pen.session()
    stand_by()
    flow.run(checkpoint=f"{folder}/state", spark=spark)


if __name__ == "__main__":
    main(sys.argv[1])
