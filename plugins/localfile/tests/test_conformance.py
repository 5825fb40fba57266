"""localfile keeps the contracts."""

import itertools

import pytest

from penstock.conformance import ConnectorSuite
from penstock.conformance.case import Case
from penstock_localfile import connector

LINES = 2


class TestLocalfile(ConnectorSuite):
    connector = connector

    @pytest.fixture
    def case(self, tmp_path):
        folder = tmp_path / "place"
        folder.mkdir()
        names = itertools.count()

        def seed(records, split):
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
