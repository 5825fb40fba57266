"""The conformance suite of remotefile: `penstock conformance remotefile --server sftp://...`."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.conformance import Case, ConnectorSuite, Record, Server
from penstock.contracts.options import parse
from penstock_localfile.engine.storage import Storage
from penstock_remotefile import connector
from penstock_remotefile.login import close_all
from penstock_remotefile.source import RemoteFiles

LINES = 2


class TestRemotefile(ConnectorSuite):
    connector = "remotefile"
    server = (
        "the URL of a folder, such as sftp://me@localhost:22/home/me/scratch, with --option "
        "private_key=... or password=...; folders are made in it and removed"
    )

    @pytest.fixture
    def case(self, penstock_server: Server, tmp_path: Path) -> Iterator[Case]:
        untried = penstock_server.untried
        wrong = _wrong(penstock_server, tmp_path)
        if wrong is None:
            untried["wrong_credentials"] = "the server was named without private_key or password"
        source, sink = penstock_server.options_of(connector)
        folder = f"conformance-{uuid.uuid4().hex[:12]}"
        above, _ = parse(RemoteFiles, {**source, "url": penstock_server.address}).storage()
        place = {"url": f"{penstock_server.address.rstrip('/')}/{folder}"}
        storage, _ = parse(RemoteFiles, {**source, **place}).storage()
        _write(storage, b".made", b"")  # and with it the folder, if there are such things
        storage.remove(b".made")
        yield Case(
            source={"timeout": 10, **source, **place},
            sink={"timeout": 10, **sink, **place},
            seed=_Seed(storage),
            server=penstock_server.breakable,
            proof=penstock_server.proof,
            untried=untried,
            step=LINES,
            wrong_credentials=wrong,
            contradictory={"format": "lines", "schema": "id BIGINT"},
        )
        above.remove_folder(folder.encode())
        close_all()


class _Seed:
    """Writes files as others would: under another name, then renamed."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._numbers = itertools.count()

    def __call__(self, records: Sequence[Record], split: int) -> None:
        # Two lines in a file, so that files and rows can be told apart; more where a batch for
        # each file would take long, and one file of very many.
        many = 50 if len(records) <= 500 else len(records)
        lines = LINES if len(records) <= 240 else many
        for at in range(0, len(records), lines):
            number = next(self._numbers)
            unfinished = f".{number}".encode()
            whole = b"".join(record.value + b"\n" for record in records[at : at + lines])
            _write(self._storage, unfinished, whole)
            self._storage.rename(unfinished, f"{split}-{number:0>8}".encode())


def _write(storage: Storage, path: bytes, data: bytes) -> None:
    file = storage.create(path)
    try:
        file.write(data)
    finally:
        file.close()


def _wrong(server: Server, folder: Path) -> dict[str, Any] | None:
    """Credentials that the server must refuse; None where it was named without any."""
    if "private_key" in server.options:
        import paramiko

        stranger = folder / "stranger"
        paramiko.ECDSAKey.generate().write_private_key_file(str(stranger))
        return {"private_key": str(stranger)}
    return {"password": "wrong-canary"} if "password" in server.options else None
