"""kill -9 between read, manifest, publish and archive: each line once, each file archived once."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.conformance.kill import Driver
from penstock.conformance.oracle import Oracle
from penstock.spark.checkpoint import Checkpoint

DRIVERS = Path(__file__).parent / "drivers"
ROOT = Path(__file__).parents[2]
ROWS = 5_000
FILES = 10

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


def killed(tmp_path, script, strikes):
    """A driver that was struck as told, started again each time, and has ended."""
    # Spark's workers find the driver's functions as the driver itself does.
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    driver = Driver(
        [DRIVERS / script, tmp_path],
        folder=tmp_path / "killed",
        strikes=strikes,
        env={"PYTHONPATH": path},
    )
    driver.finish(within=200)
    assert driver.lives == len(strikes) + 1


def settled(tmp_path, count):
    """Every input lies in the archive, and nothing lies under a temporary name."""
    folder = tmp_path / "in"
    assert [p for p in folder.iterdir() if p.is_file()] == []
    assert len(list((folder / ".archive").iterdir())) == count
    assert [p for p in (tmp_path / "out" / ".penstock").rglob("tmp/*/*") if p.is_file()] == []


@pytest.mark.parametrize(
    "strikes",
    [
        pytest.param(["manifest-written@2", "file-published@3", "file-settled@3"], id="short"),
        pytest.param(
            ["offsets-logged@2", "mid-write@3", "tasks-written@2"],
            id="read",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["manifest-written@1", "file-published@1", "file-published@4"],
            id="published",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["sink-finished@1", "sinks-finished@3", "file-settled@1", "file-settled@4"],
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
    killed(tmp_path, "files.py", strikes)
    out = sorted((tmp_path / "out").glob("*.txt"))
    oracle.judge([line for p in out for line in p.read_text().splitlines()]).require()
    settled(tmp_path, FILES)


@pytest.mark.parametrize(
    "strikes",
    [
        pytest.param(["mid-write@2", "file-settled@3"], id="two", marks=pytest.mark.slow),
        pytest.param(
            [
                "offsets-logged@2",
                "tasks-written@2",
                "manifest-written@2",
                "file-published@4",
                "sinks-finished@3",
            ],
            id="between",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_records_that_spark_reads_itself_are_there_once_after_kills(
    tmp_path, strikes, penstock_seed
):
    oracle = Oracle(ROWS, penstock_seed)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(FILES):
        ids = pa.table({"id": oracle.ids[number::FILES]})
        pq.write_table(ids, folder / f"{number}.parquet", row_group_size=100)
    killed(tmp_path, "native_files.py", strikes)
    out = sorted((tmp_path / "out").glob("*.json"))
    rows = [json.loads(line) for p in out for line in p.read_text().splitlines()]
    oracle.judge([row["id"] for row in rows]).require()
    for row in rows:  # the stamp of a record read again is the record's own
        number = int(row["part"].removesuffix(".parquet"))
        assert row["id"] == oracle.ids[number::FILES][row["position"]]
    assert readers(tmp_path / "state") == ["Spark"] * (FILES // 2)
    settled(tmp_path, FILES)


def readers(state):
    """Who read each batch."""
    found = []
    for number in range(FILES // 2):
        said = Checkpoint(str(state)).batch(number).path.read_text().splitlines()
        found += [fact["by"] for fact in map(json.loads, said) if "reader" in fact]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "strikes",
    [
        pytest.param(["mid-write@3", "file-published@5", "file-settled@11"], id="short"),
        pytest.param(
            ["tasks-written@1", "manifest-written@2", "file-published@20", "sinks-finished@3"],
            id="between",
        ),
    ],
)
def test_every_file_gives_its_file_once_after_kills(tmp_path, strikes, penstock_seed):
    oracle = Oracle(3_000, penstock_seed)
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    given = {f"{n:02d}": list(oracle.ids[n::30]) for n in range(30)} | {"empty": []}
    for name, lines in given.items():
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "bad.txt").write_text("poison\n")
    killed(tmp_path, "file_for_a_file.py", strikes)
    made = {p.stem: p.read_text().splitlines() for p in out.glob("*.out")}
    oracle.judge([line for lines in made.values() for line in lines]).require()
    assert made == {name: lines[::-1] for name, lines in given.items()}
    assert (out / "errors" / "bad.txt").read_text() == "poison\n"
    assert json.loads((out / "errors" / "bad.txt.error.json").read_text())["kind"] == "ValueError"
    settled(tmp_path, 32)
