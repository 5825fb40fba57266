"""Loads what all test folders share."""

import pytest

pytest_plugins = ["tests.brokers.fixtures", "tests.faults.disk", "tests.faults.table"]

# Clauses that run pipelines, or kill a driver more than once, in every connector's suite: each
# takes half a minute and more, so they are left to `tox run -e full`.
LONG = (
    *("err_02", "err_03", "err_04", "que_01", "que_02", "que_03", "que_04", "que_20"),
    *("shp_06", "snk_09"),
)
# What takes as long in one suite, and is in the default run of another.
LONG_OF = {
    "TestStdout": ("snk_17",),
    "TestSockets": ("snk_17",),
    "TestGenerator": ("src_11",),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        clause = getattr(getattr(item, "function", None), "__clause__", None)
        named = clause is not None and clause.id.lower().replace("-", "_")
        suite = item.cls.__name__ if getattr(item, "cls", None) else ""
        if named in LONG or named in LONG_OF.get(suite, ()):
            item.add_marker(pytest.mark.slow)
