"""The conformance suite of localfile: `penstock conformance localfile`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.conformance import Case, ConnectorSuite, Record

LINES = 2


class TestLocalfile(ConnectorSuite):
    connector = "localfile"

    @pytest.fixture
    def case(self, tmp_path: Path) -> Case:
        folder = tmp_path / "place"
        folder.mkdir()
        names = itertools.count()

        def seed(records: Sequence[Record], split: int) -> None:
            for at in range(0, len(records), LINES):
                lines = [record.value + b"\n" for record in records[at : at + LINES]]
                unfinished = folder / f".{next(names)}"
                unfinished.write_bytes(b"".join(lines))
                unfinished.rename(folder / f"{split}-{unfinished.name[1:]:0>8}")

        # The lag is told in files: two lines each make it comparable to rows.
        return Case(
            source={"path": str(folder)},
            sink={"path": str(folder)},
            seed=seed,
            step=LINES,
            contradictory={"format": "lines", "schema": "id BIGINT"},
            typed={"format": "parquet"},
        )
