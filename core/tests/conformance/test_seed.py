"""One seed for a whole run, however many processes it has."""

import subprocess
import sys

import pytest

TEST = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_seed(penstock_seed, number):
    print("seed is", penstock_seed)
"""


@pytest.mark.parametrize("arguments", [["-n2"], ["-n2", "--penstock-seed=77"]])
def test_every_process_has_the_seed_that_the_header_prints(tmp_path, arguments):
    (tmp_path / "test_it.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-rP", *arguments, "-p", "no:cacheprovider", "."]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120).stdout
    printed = next(line for line in said.splitlines() if line.startswith("penstock seed:"))
    seeds = {line.split()[-1] for line in said.splitlines() if line.startswith("seed is")}
    assert seeds == {printed.split()[2]}, said
    assert said.count("seed is") == 4
    if len(arguments) == 2:
        assert seeds == {"77"}
