"""kill -9 between read, manifest, publish and archive: each line once, each file archived once."""

from pathlib import Path

import pytest

from penstock.conformance.kill import Driver
from penstock.conformance.oracle import Oracle

DRIVERS = Path(__file__).parent / "drivers"
ROWS = 5_000
FILES = 10

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "strikes",
    [
        pytest.param(["manifest-written@2", "file-published@3", "file-settled@3"], id="short"),
        pytest.param(
            ["mid-write@3", "manifest-written@1"], id="written-and-decided", marks=pytest.mark.slow
        ),
        pytest.param(
            ["file-published@1", "file-published@4"], id="published", marks=pytest.mark.slow
        ),
        pytest.param(
            ["file-settled@1", "file-settled@2", "manifest-written@2"],
            id="archived",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_lines_are_there_once_and_files_are_archived_after_kills(tmp_path, strikes, penstock_seed):
    oracle = Oracle(ROWS, penstock_seed)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(FILES):
        text = "".join(f"{name}\n" for name in oracle.ids[number::FILES])
        (folder / f"{number}.txt").write_text(text)
    driver = Driver([DRIVERS / "files.py", tmp_path], folder=tmp_path / "killed", strikes=strikes)
    driver.finish(within=200)
    assert driver.lives == len(strikes) + 1
    out = tmp_path / "out"
    found = [line for p in sorted(out.glob("*.txt")) for line in p.read_text().splitlines()]
    oracle.judge(found).require()
    assert list(folder.glob("*.txt")) == []
    assert len(list((folder / ".archive").iterdir())) == FILES
    assert [p for p in (out / ".penstock").rglob("tmp/*/*") if p.is_file()] == []
