"""The suite, against a real OpenSSH server that it may kill."""

import itertools
import subprocess

import pytest

from penstock.conformance import Case, ConnectorSuite
from penstock_remotefile.login import close_all
from tests.brokers.fixtures import running
from tests.brokers.openssh import OpenSSH

pytestmark = pytest.mark.server
LINES = 2


@pytest.fixture(scope="module")
def server():
    yield from running(OpenSSH())


class TestRemotefile(ConnectorSuite):
    connector = "remotefile"

    @pytest.fixture
    def case(self, server, tmp_path):
        folder = server.files / tmp_path.name
        folder.mkdir()
        stranger = tmp_path / "stranger"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", stranger], check=True)
        names = itertools.count()

        def seed(records, split):
            # Two lines in a file, so that files and rows can be told apart; more where a batch for
            # each file would take long, and one file of very many.
            many = 50 if len(records) <= 500 else len(records)
            lines = LINES if len(records) <= 240 else many
            for at in range(0, len(records), lines):
                whole = b"".join(record.value + b"\n" for record in records[at : at + lines])
                unfinished = folder / f".{next(names)}"
                unfinished.write_bytes(whole)
                unfinished.rename(folder / f"{split}-{unfinished.name[1:]:0>8}")

        place = {
            "url": f"sftp://{server.user}@127.0.0.1:{server.port}{folder}",
            "private_key": str(server.private_key),
            "known_hosts": str(server.known_hosts),
            "timeout": 10,
        }
        yield Case(
            source=place,
            sink=place,
            seed=seed,
            server=server,
            proof="real server",
            step=LINES,
            wrong_credentials={"private_key": str(stranger)},
            contradictory={"format": "lines", "schema": "id BIGINT"},
        )
        close_all()
