"""kill -9 of the whole driver at each named point of the drain: nothing lost, nothing doubled."""

import json
from pathlib import Path

import pytest

from penstock.conformance.kill import Driver
from penstock.conformance.oracle import Oracle

DRIVERS = Path(__file__).parent / "drivers"
ROWS = 5_000
POINTS = [
    "offsets-logged@2",
    "staged@2",
    "mid-write@5",
    "tasks-written@3",
    "dead-letters-published@4",
    "sink-finished@6",
    "dead-letters-delivered@3",
    "sinks-finished@5",
]

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]


def lines(folder):
    files = [p for p in sorted(folder.iterdir()) if p.is_file() and p.name[0] not in "._"]
    return [line for p in files for line in p.read_text().splitlines()]


def seeded(folder, oracle, form):
    """The oracle's ids in ten files: two each make a batch, so that there are five batches."""
    folder.mkdir()
    for number in range(10):
        text = "".join(form(name) + "\n" for name in oracle.ids[number::10])
        (folder / f"{number}.txt").write_text(text)


def killed(tmp_path, script, strikes):
    driver = Driver(
        [DRIVERS / script, tmp_path], folder=tmp_path / "killed", strikes=strikes, standby=True
    )
    driver.finish(within=300)
    assert driver.lives == len(strikes) + 1


@pytest.mark.parametrize(
    "strikes",
    [
        pytest.param(["mid-write@5", "sink-finished@5", "dead-letters-delivered@3"], id="short"),
        pytest.param(POINTS, id="every-point", marks=pytest.mark.slow),
    ],
)
def test_two_sinks_hold_the_same_records_once_each_after_kills(tmp_path, strikes, penstock_seed):
    oracle = Oracle(ROWS, penstock_seed)
    bad = set(oracle.ids[7::101])  # some in every file, and so in every batch
    seeded(tmp_path / "in", oracle, lambda name: json.dumps({"id": name, "bad": name in bad}))
    killed(tmp_path, "two_sinks.py", strikes)
    letters = [json.loads(line)["message"] for line in lines(tmp_path / "letters")]
    assert sorted(letters) == sorted(bad)
    left, right = (
        {r["id"]: r["number"] for r in judged(oracle, tmp_path / side, letters)}
        for side in ("left", "right")
    )
    # The function is random: equal values mean that both sinks and every replay read one stage.
    assert left == right


def judged(oracle, folder, letters):
    """Each record is in the folder or among the letters, once."""
    records = [json.loads(line) for line in lines(folder)]
    oracle.judge([*(record["id"] for record in records), *letters]).require()
    return records


@pytest.mark.parametrize(
    "strikes",
    [
        pytest.param(["mid-write@3", "sinks-finished@3"], id="two", marks=pytest.mark.slow),
        pytest.param(
            [
                p.replace("sink-finished@6", "sink-finished@4")  # one sink, not two
                for p in POINTS
                if "staged" not in p and "letters" not in p
            ],
            id="every-point",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_files_copied_by_a_stream_are_whole_after_kills(tmp_path, strikes, penstock_seed):
    oracle = Oracle(ROWS, penstock_seed)
    seeded(tmp_path / "in", oracle, str)
    killed(tmp_path, "copy_files.py", strikes)
    oracle.judge(lines(tmp_path / "out")).require()
