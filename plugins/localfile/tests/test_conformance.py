"""localfile keeps the contracts."""

import pytest

from penstock.conformance import ConnectorSuite
from penstock.conformance.case import Case
from penstock_localfile import connector


class TestLocalfile(ConnectorSuite):
    connector = connector

    @pytest.fixture
    def case(self, tmp_path):
        folder = tmp_path / "place"
        folder.mkdir()
        return Case(
            source={"path": str(folder)},
            sink={"path": str(folder)},
            contradictory={"format": "lines", "schema": "id BIGINT"},
        )
