"""The reference connector over a folder passes the suite: this file is what an author writes."""

import pytest

from penstock.conformance import Case, ConnectorSuite
from penstock.conformance.reference.folder import connector as folder


class TestFolder(ConnectorSuite):
    connector = folder

    @pytest.fixture
    def case(self, tmp_path):
        place = {"path": str(tmp_path)}
        return Case(source=place, sink=place)
