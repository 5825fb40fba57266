"""Clauses of the little broker that take several lives of a driver run with `tox run -e full`.

Those of the queue connectors do too, against their real brokers.
"""

import pytest

LONG = ("que_02", "que_03", "que_04", "que_20", "shp_06", "snk_09", "snk_17")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if "TestSockets" in item.nodeid and any(f"test_{name}_" in item.nodeid for name in LONG):
            item.add_marker(pytest.mark.slow)
