import pytest

from penstock.conformance.killed import KilledClauses
from penstock.conformance.through_spark import SparkClauses


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Clauses that start Spark or kill it take minutes: they come last, in the full run only."""
    heavy = {*vars(KilledClauses), *vars(SparkClauses)}
    ours = [n for n, item in enumerate(items) if "TestRemotefile::" in item.nodeid]
    ordered = sorted((items[n] for n in ours), key=lambda item: item.name in heavy)
    for place, item in zip(ours, ordered, strict=True):
        items[place] = item
        if item.name in heavy:
            item.add_marker(pytest.mark.slow)
