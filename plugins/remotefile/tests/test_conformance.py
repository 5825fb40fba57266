"""remotefile keeps the contracts, by SFTP, against a real OpenSSH server that gets killed."""

import itertools

import pytest

from penstock.conformance import ConnectorSuite
from penstock.conformance.case import Case
from penstock_remotefile import connector

LINES = 2


@pytest.mark.slow
@pytest.mark.server
class TestRemotefile(ConnectorSuite):
    connector = connector

    @pytest.fixture
    def case(self, fresh_sshd, tmp_path):
        folder = fresh_sshd.files / "place"
        folder.mkdir()
        stranger = tmp_path / "stranger"
        fresh_sshd.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(stranger)])
        names = itertools.count()

        def seed(records, split):
            for at in range(0, len(records), LINES):
                lines = [record.value + b"\n" for record in records[at : at + LINES]]
                unfinished = folder / f".{next(names)}"
                unfinished.write_bytes(b"".join(lines))
                unfinished.rename(folder / f"{split}-{unfinished.name[1:]:0>8}")

        # SFTP tells times in whole seconds: names keep the order.
        place = {
            "url": f"sftp://{fresh_sshd.user}@127.0.0.1:{fresh_sshd.port}{folder}",
            "private_key": str(fresh_sshd.private_key),
            "known_hosts": str(fresh_sshd.known_hosts),
            "timeout": 5,
            "retries": 1,
        }
        return Case(
            source={**place, "order": "name"},
            sink=place,
            seed=seed,
            step=LINES,
            server=fresh_sshd,
            proof="real server",
            wrong_credentials={"private_key": str(stranger)},
            contradictory={"url": "sftp://me:password@127.0.0.1/x"},
        )
