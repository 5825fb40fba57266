"""The connectors in the core pass the suite."""

from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest

from penstock.conformance import Case, ConnectorSuite, Record

ROWS, SEED = 240, 7


def record(number: int) -> Record:
    """What the generator must make: worked out here, not asked of it."""
    mixed = ((number + SEED * 7919 + 1) * 2_654_435_761) & 0x7FFFFFFF
    return Record(
        id=f"{SEED}-{number}",
        key=f"customer-{(mixed >> 7) % 97}".encode(),
        value=b"." * 90,
        headers=(),
        event_time=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number),
    )


class TestGenerator(ConnectorSuite):
    connector = "generator"

    @pytest.fixture
    def case(self):
        return Case(
            source={"rows": ROWS, "seed": SEED},
            expected=[record(number) for number in range(ROWS)],
            contradictory={"rate": -1},
            identify=lambda rows: rows.column("id").to_pylist(),
        )


class TestStdout(ConnectorSuite):
    connector = "stdout"
    waivers: ClassVar = {
        "SNK-09": "what a worker prints cannot be read back by the process that asks",
        "SNK-17": "what a worker prints cannot be read back by the process that asks",
    }

    @pytest.fixture
    def case(self, capsys):
        printed = []

        def read_back():
            printed.extend(capsys.readouterr().out.encode().splitlines())
            return printed

        return Case(sink={"format": "text"}, read_back=read_back)
