"""A whole file for a whole file, archived once it is durable; killed by its test."""

import sys

import penstock as pen


def turned(data):
    """The lines of a file, the last one first; a file with this word in it is bad."""
    if b"poison" in data:
        raise ValueError("this file is bad")
    return b"".join(line + b"\n" for line in reversed(data.splitlines()))


def main(folder):
    flow = (
        pen.pipeline("file-for-a-file")
        .source(
            "localfile", path=f"{folder}/in", format="whole", parts=2, max_files=8, after="archive"
        )
        .bounded()
        .sink(
            "localfile",
            path=f"{folder}/out",
            format="files",
            convert="tests.faults.drivers.file_for_a_file:turned",
            file_name="{stem}.out",
        )
    )
    flow.run(checkpoint=f"{folder}/state")


if __name__ == "__main__":
    main(sys.argv[1])
