"""The reference connector over a folder passes the suite."""

import pytest

from penstock.conformance import ConnectorSuite
from penstock.conformance.reference.cases import folder_case
from penstock.conformance.reference.folder import connector as folder


class TestFolder(ConnectorSuite):
    connector = folder

    @pytest.fixture
    def case(self, tmp_path):
        with folder_case(tmp_path) as case:
            yield case
