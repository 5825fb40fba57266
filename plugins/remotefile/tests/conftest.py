import pytest

from penstock.conformance.killed import KilledClauses
from penstock_remotefile.login import close_all


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


@pytest.fixture(autouse=True)
def no_connection_left():
    yield
    close_all()


@pytest.fixture
def folder(sshd, tmp_path_factory):
    made = sshd.files / tmp_path_factory.mktemp("x").name
    made.mkdir()
    return made


def sftp_options(server, folder, **more):
    return {
        "url": f"sftp://{server.user}@127.0.0.1:{server.port}{folder}",
        "private_key": str(server.private_key),
        "known_hosts": str(server.known_hosts),
        "timeout": 10,
        **more,
    }
