{%- if cookiecutter.shape == "queue" -%}
"""A fresh, empty place for the tests, on a broker of its own."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.conformance import Case, Record

from {{ cookiecutter.__package }}.client import Link

PASSWORD = "open sesame"


class BrokerProcess:
    """The broker as a process; `kill` is a power cut, `start` brings it back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "{{ cookiecutter.__package }}.broker", str(self._folder)]
        command += [f"--port={self.port}", f"--password={PASSWORD}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None

    def send(self, records: Sequence[Record], split: int = 0) -> None:
        link = Link("127.0.0.1", self.port, PASSWORD)
        messages = [
            {
                "id": record.id,
                "key": base64.b64encode(record.key).decode(),
                "value": base64.b64encode(record.value).decode(),
                "headers": [[n, base64.b64encode(v).decode()] for n, v in record.headers],
                "time": round(record.event_time.timestamp() * 1_000_000),
            }
            for record in records
        ]
        link.ask("send", messages=messages)
        link.close()


@contextmanager
def fresh_place(folder: Path) -> Iterator[Case]:
    """CHANGE: start your server, or take a fresh queue on one that runs."""
    broker = BrokerProcess(folder / "broker")
    broker.start()
    try:
        yield Case(
            source={"port": broker.port, "password": PASSWORD},
            seed=broker.send,
            server=broker,
            wrong_credentials={"password": "open barley"},
        )
    finally:
        broker.kill()
{%- elif cookiecutter.shape == "source" -%}
"""A fresh, empty place for the tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.conformance import Case, Record
from penstock.conformance.records import envelopes

from {{ cookiecutter.__package }}.segments import append


@contextmanager
def fresh_place(folder: Path) -> Iterator[Case]:
    """CHANGE: make a fresh place on your server, and say how records get there."""

    def seed(records: Sequence[Record], split: int) -> None:
        append(folder, str(split), envelopes(records))

    yield Case(source={"path": str(folder)}, seed=seed)
{%- elif cookiecutter.shape == "sink" -%}
"""A fresh, empty place for the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from penstock.conformance import Case

from {{ cookiecutter.__package }}.segments import listed


@contextmanager
def fresh_place(folder: Path) -> Iterator[Case]:
    """CHANGE: make a fresh place on your server, and say how to read it back."""

    def read_back() -> list[bytes]:
        values: list[bytes] = []
        for segment in [each for split in listed(folder).values() for each in split]:
            with pa.OSFile(str(segment.path)) as file:
                values += pa.ipc.open_file(file).read_all().column("value").to_pylist()
        return values

    yield Case(sink={"path": str(folder)}, read_back=read_back)
{%- elif cookiecutter.shape == "source-and-sink" -%}
"""A fresh, empty place for the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.conformance import Case


@contextmanager
def fresh_place(folder: Path) -> Iterator[Case]:
    """CHANGE: make a fresh place on your server. The sink fills it, the source reads it back."""
    place = {"path": str(folder)}
    yield Case(source=place, sink=place)
{%- elif cookiecutter.shape == "coder" -%}
"""What the suite tries the coder with."""

from __future__ import annotations

from penstock.conformance import CoderCase


def sample() -> CoderCase:
    """CHANGE: options of your coder, and values it must refuse or survive."""
    return CoderCase(
        options={"columns": ["id", "name"]},
        bad=[b"no equals sign", b"a=%FF", b"\xff\xfe", b"a=1&&&&b"],
        hostile=[b"a=" + b"%41" * 100_000, b"&" * 100_000, b"a=1&" * 50_000],
        older={"columns": ["id"]},
        newer={"columns": ["name", "id", "mail"]},
    )
{%- else -%}
"""What the suite tries the transform with."""

from __future__ import annotations

import pyarrow as pa
from penstock.conformance import TransformCase


def sample() -> TransformCase:
    """CHANGE: options of your transform, what goes in, and what must come out."""
    return TransformCase(
        options={"column": "mail", "drop_missing": True},
        data=pa.RecordBatch.from_pylist(
            [{"id": 1, "mail": "a@b.org"}, {"id": 2, "mail": None}, {"id": 3, "mail": "c"}]
        ),
        wanted=[{"id": 1, "mail": "5b26064bbe84"}, {"id": 3, "mail": "2e7d2c03a950"}],
    )
{%- endif %}
