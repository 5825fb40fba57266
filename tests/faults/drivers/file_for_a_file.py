"""A whole file for a whole file, archived once it is durable; killed by its test."""

import json
import sys
from pathlib import Path

import penstock as pen
from penstock.conformance.kill import stand_by


def turned(data):
    """The lines of a file, the last one first; a file with this word in it is bad."""
    if b"poison" in data:
        raise ValueError("this file is bad")
    return b"".join(line + b"\n" for line in reversed(data.splitlines()))


def main(folder):
    place = json.loads(Path(folder, "place.json").read_text())
    reading = {"format": "whole", "parts": 2, "max_files": 8, "after": "archive"}
    flow = (
        pen.pipeline("file-for-a-file")
        .source(place["connector"], **place["in"], **reading)
        .bounded()
        .sink(
            place["connector"],
            **place["out"],
            format="files",
            convert="tests.faults.drivers.file_for_a_file:turned",
            file_name="{stem}.out",
        )
    )
    spark = pen.session()
    stand_by()
    flow.run(checkpoint=f"{folder}/state", spark=spark)


if __name__ == "__main__":
    main(sys.argv[1])
