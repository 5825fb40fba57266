"""How long the conformance suite takes where no server is needed, against what is promised.

`python -m tests.benchmarks suite [ROW ...]`
"""

import json
import subprocess
import sys

from tests.benchmarks.measure import Pair, row, seconds

NAMES = ("conformance-localfile",)
MOST = 180.0
"""Seconds that a suite without a server may take on two cores."""


def main(wanted: list[str]) -> None:
    for name in wanted or NAMES:
        measure(name, name.removeprefix("conformance-"))


def measure(name: str, connector: str) -> None:
    command = [sys.executable, "-m", "penstock", "conformance", connector, "--json"]
    said = ""

    def work() -> None:
        nonlocal said
        # A suite that ended early because it failed would be a fast one.
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    took = seconds(work)
    ratio = took / MOST
    counts = json.loads(said)["counts"]
    row(name, Pair(took, MOST, ratio, (ratio, ratio)), "s, peer: the most it may take", **counts)
