import pytest

from penstock.conformance.killed import KilledClauses
from penstock.conformance.through_spark import SparkClauses


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Clauses that start Spark take minutes: they belong to the full run."""
    heavy = {*vars(KilledClauses), *vars(SparkClauses)}
    for item in items:
        ours = getattr(getattr(item, "cls", None), "__name__", "") == "TestLocalfile"
        if ours and item.name in heavy:
            item.add_marker(pytest.mark.slow)
