import pytest

from penstock.conformance.killed import KilledClauses


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Clauses that start Spark or kill it take minutes: they come last, in the full run only."""
    ours = [n for n, item in enumerate(items) if "TestRemotefile::" in item.nodeid]
    ordered = sorted((items[n] for n in ours), key=_heavy)
    for place, item in zip(ours, ordered, strict=True):
        items[place] = item
        if _heavy(item):
            item.add_marker(pytest.mark.slow)


def _heavy(item: pytest.Item) -> bool:
    return "penstock_spark" in getattr(item, "fixturenames", ()) or item.name in vars(KilledClauses)
