"""Files to files, archived once they are durable; killed by its test."""

import json
import sys
from pathlib import Path

import penstock as pen
from penstock.conformance.kill import stand_by


def main(folder):
    place = json.loads(Path(folder, "place.json").read_text())
    flow = (
        pen.pipeline("files")
        .source(place["connector"], **place["in"], max_files=2, after="archive")
        .bounded()
        .sink(place["connector"], **place["out"])
    )
    spark = pen.session()
    stand_by()
    flow.run(checkpoint=f"{folder}/state", spark=spark)


if __name__ == "__main__":
    main(sys.argv[1])
