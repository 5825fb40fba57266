"""Files to files, archived once they are durable; killed by its test."""

import sys

import penstock as pen


def main(folder):
    flow = (
        pen.pipeline("files")
        .source("localfile", path=f"{folder}/in", max_files=2, after="archive")
        .bounded()
        .sink("localfile", path=f"{folder}/out")
    )
    flow.run(checkpoint=f"{folder}/state")


if __name__ == "__main__":
    main(sys.argv[1])
