"""Event time on Spark: from a field, kept through steps, with late records told."""

import json
from pathlib import Path

import pytest

import penstock as pen

pytestmark = pytest.mark.spark


def lines(folder):
    files = [p for p in sorted(Path(folder).iterdir()) if p.is_file() and p.name[0] not in "._"]
    return [json.loads(line) for p in files for line in p.read_text().splitlines()]


def at(minute):
    return f"2026-01-01T12:{minute:02d}:00Z"


def test_the_watermark_decides_what_is_late_and_late_records_are_counted(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    batches = [
        [(1, at(0)), (2, at(30)), (2, at(30))],
        [(3, at(31))],
        # Spark holds a batch's records to the watermark of the batch before: here 9 is late.
        [(4, at(50)), (3, at(32)), (9, at(1))],
    ]
    for number, records in enumerate(batches):
        text = "".join(json.dumps({"id": n, "at": when}) + "\n" for n, when in records)
        (folder / f"{number}.txt").write_text(text)
    handle = (
        pen.pipeline("late")
        .source("localfile", path=str(folder), max_files=1)
        .bounded()
        .decode("json", schema="id long, at timestamp")
        .event_time("at", watermark="10 minutes")
        .deduplicate("id")
        .map(
            lambda record: {"id": record["id"], "same": record["event_time"] == record["at"]},
            schema="id long, same boolean",
            meta=True,
        )
        .sink("localfile", path=str(tmp_path / "out"))
        .run(checkpoint=tmp_path / "state", spark=spark)
    )
    found = lines(tmp_path / "out")
    assert sorted(record["id"] for record in found) == [1, 2, 3, 4]
    assert all(record["same"] for record in found)
    assert handle.late() == handle.progress()["late"] == 1
