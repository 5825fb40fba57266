"""kill -9 between read, manifest, publish and archive, wherever the files lie: each line once, each
file archived once, and never half a file to be seen."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.conformance.kill import Driver
from penstock.conformance.oracle import Oracle
from penstock.spark.checkpoint import Checkpoint
from tests.faults.file_places import Folder, Sftp, Store, only_whole, tell

DRIVERS = Path(__file__).parent / "drivers"
ROOT = Path(__file__).parents[2]
ROWS = 5_000
FILES = 10

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


@pytest.fixture
def place(request, tmp_path, tmp_path_factory):
    """Where the files lie: `local`, `sftp` or `s3`."""
    if request.param == "local":
        return Folder(tmp_path)
    unique = tmp_path_factory.mktemp("place").name.replace("_", "-")
    if request.param == "sftp":
        return Sftp(request.getfixturevalue("sshd"), unique)
    pytest.importorskip("s3fs")
    return Store(request.getfixturevalue("objectstore"), unique)


def killed(tmp_path, script, strikes, place):
    """A driver that was struck as told, started again each time, and has ended."""
    tell(place, tmp_path)
    # Spark's workers find the driver's functions as the driver itself does.
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    driver = Driver(
        [DRIVERS / script, tmp_path],
        folder=tmp_path / "killed",
        strikes=strikes,
        env={"PYTHONPATH": path},
        standby=True,
    )
    with only_whole(place):
        driver.finish(within=200)
    assert driver.lives == len(strikes) + 1
    return driver


def settled(place, given):
    """Every input lies in the archive as it was, and nothing lies under a temporary name."""
    left = place.sizes("in")
    assert left == {f".archive/{name}": len(data) for name, data in given.items()}
    assert [name for name in place.sizes("out") if "/tmp/" in name] == []


def points(place, name, *strikes, slow=True):
    """Kills, at a place."""
    marks = pytest.mark.slow if slow else ()
    return pytest.param(place, list(strikes), id=f"{place}-{name}", marks=marks)


BEFORE = ["offsets-logged@2", "mid-write@3", "tasks-written@2", "manifest-written@2"]
BEHIND = ["file-published@3", "sink-finished@2", "sinks-finished@3", "file-settled@3"]


@pytest.mark.parametrize(
    ("place", "strikes"),
    [
        points(
            "local", "short", "manifest-written@2", "file-published@3", "file-settled@3", slow=False
        ),
        points("local", "read", "offsets-logged@2", "mid-write@3", "tasks-written@2"),
        points("local", "published", "manifest-written@1", "file-published@1", "file-published@4"),
        points(
            "local",
            "archived",
            *["sink-finished@1", "sinks-finished@3", "file-settled@1", "file-settled@4"],
        ),
        points("sftp", "read", *BEFORE),
        points("sftp", "published", *BEHIND),
        points("s3", "read", *BEFORE),
        points("s3", "published", *BEHIND),
    ],
    indirect=["place"],
)
def test_lines_are_there_once_and_files_are_archived_after_kills(
    tmp_path, place, strikes, penstock_seed
):
    oracle = Oracle(ROWS, penstock_seed)
    given = lines_given(place, oracle)
    killed(tmp_path, "files.py", strikes, place)
    judge_lines(place, oracle)
    settled(place, given)


def lines_given(place, oracle):
    given = {}
    for number in range(FILES):
        text = "".join(f"{name}\n" for name in oracle.ids[number::FILES])
        given[f"{number}.txt"] = text.encode()
    for name, data in given.items():
        place.put(name, data)
    return given


def judge_lines(place, oracle):
    whole = b"".join(place.content("out", name) for name in place.visible("out"))
    oracle.judge(whole.decode().splitlines()).require()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_store_that_copies_for_a_rename_shows_and_archives_each_file_once(
    tmp_path, place, penstock_seed
):
    oracle = Oracle(ROWS, penstock_seed)
    given = lines_given(place, oracle)
    strikes = [f"file-copied@{count}" for count in (1, 3, 4, 6)]
    driver = killed(tmp_path, "files.py", strikes, place)
    struck = " ".join(entry["facts"]["file"] for entry in driver.struck())
    for between in (".json'", ".done'", "/out/part-", "/in/.archive/"):
        assert between in struck, "no kill where one was meant to be"
    judge_lines(place, oracle)
    settled(place, given)


@pytest.mark.parametrize(
    ("place", "strikes"),
    [
        points("local", "two", "mid-write@2", "file-settled@3"),
        points(
            "local",
            "between",
            "offsets-logged@2",
            "tasks-written@2",
            "manifest-written@2",
            "file-published@4",
            "sinks-finished@3",
        ),
    ],
    indirect=["place"],
)
def test_records_that_spark_reads_itself_are_there_once_after_kills(
    tmp_path, place, strikes, penstock_seed
):
    oracle = Oracle(ROWS, penstock_seed)
    folder = tmp_path / "in"
    for number in range(FILES):
        ids = pa.table({"id": oracle.ids[number::FILES]})
        pq.write_table(ids, folder / f"{number}.parquet", row_group_size=100)
    given = {path.name: path.read_bytes() for path in folder.iterdir()}
    killed(tmp_path, "native_files.py", strikes, place)
    out = sorted((tmp_path / "out").glob("*.json"))
    rows = [json.loads(line) for p in out for line in p.read_text().splitlines()]
    oracle.judge([row["id"] for row in rows]).require()
    for row in rows:  # the stamp of a record read again is the record's own
        number = int(row["part"].removesuffix(".parquet"))
        assert row["id"] == oracle.ids[number::FILES][row["position"]]
    assert readers(tmp_path / "state") == ["Spark"] * (FILES // 2)
    settled(place, given)


def readers(state):
    """Who read each batch."""
    found = []
    for number in range(FILES // 2):
        said = Checkpoint(str(state)).batch(number).path.read_text().splitlines()
        found += [fact["by"] for fact in map(json.loads, said) if "reader" in fact]
    return found


BETWEEN = ["tasks-written@1", "manifest-written@2", "file-published@20", "sinks-finished@3"]


@pytest.mark.parametrize(
    ("place", "strikes"),
    [
        points("local", "short", "mid-write@3", "file-published@5", "file-settled@11"),
        points("local", "between", *BETWEEN),
        points("sftp", "short", "mid-write@3", "file-published@5", "file-settled@11"),
        points("s3", "between", *BETWEEN),
    ],
    indirect=["place"],
)
def test_every_file_gives_its_file_once_after_kills(tmp_path, place, strikes, penstock_seed):
    oracle = Oracle(3_000, penstock_seed)
    lines = {f"{n:02d}": list(oracle.ids[n::30]) for n in range(30)} | {"empty": []}
    given = {f"{name}.txt": "".join(f"{i}\n" for i in ids).encode() for name, ids in lines.items()}
    given["bad.txt"] = b"poison\n"
    for name, data in given.items():
        place.put(name, data)
    killed(tmp_path, "file_for_a_file.py", strikes, place)
    made = {n: place.content("out", n).decode().splitlines() for n in place.visible("out")}
    assert made.pop("errors/bad.txt") == ["poison"]
    assert json.loads("".join(made.pop("errors/bad.txt.error.json")))["kind"] == "ValueError"
    oracle.judge([line for lines in made.values() for line in lines]).require()
    assert made == {f"{name}.out": ids[::-1] for name, ids in lines.items()}
    settled(place, given)
