"""Fresh places for the reference connectors, as a plugin's test file would make them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from penstock.conformance.case import Case
from penstock.conformance.coders import CoderCase
from penstock.conformance.reference.mount import Mount
from penstock.conformance.reference.process import BrokerProcess
from penstock.conformance.transforms import TransformCase

PASSWORD = "open sesame"


@contextmanager
def folder_case(folder: Path) -> Iterator[Case]:
    place = {"path": str(folder)}
    yield Case(source=place, sink=place, server=Mount(folder))


@contextmanager
def sockets_case(folder: Path) -> Iterator[Case]:
    with BrokerProcess(folder / "broker", password=PASSWORD) as broker:
        place = {"port": broker.port, "password": PASSWORD}
        wrong = {"password": "open barley"}
        yield Case(source=place, sink=place, server=broker, wrong_credentials=wrong)


def form_case() -> CoderCase:
    return CoderCase(
        options={"columns": ["id", "name"]},
        bad=[b"no equals sign", b"a=%FF", b"\xff\xfe", b"a=1&&&&b"],
        hostile=[b"a=" + b"%41" * 100_000, b"&" * 100_000, b"a=1&" * 50_000],
        older={"columns": ["id"]},
        newer={"columns": ["name", "id", "mail"]},
    )


def mask_case() -> TransformCase:
    return TransformCase(
        options={"column": "mail", "drop_missing": True},
        data=pa.RecordBatch.from_pylist(
            [{"id": 1, "mail": "a@b.org"}, {"id": 2, "mail": None}, {"id": 3, "mail": "c"}]
        ),
        wanted=[{"id": 1, "mail": "5b26064bbe84"}, {"id": 3, "mail": "2e7d2c03a950"}],
    )
