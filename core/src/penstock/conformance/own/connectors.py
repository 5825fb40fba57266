"""The suites of the connectors in the core."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.conformance import Case, ConnectorSuite, Record

ROWS, SEED = 240, 7
PRINTED = re.compile(rb"^[\w-]+ na\xc3\xafve .*$", re.MULTILINE)
"""A record's value at the beginning of a line; what else a log holds is not about records."""


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
    def case(self) -> Case:
        return Case(
            source={"rows": ROWS, "seed": SEED},
            expected=[record(number) for number in range(ROWS)],
            contradictory={"rate": -1},
            identify=lambda rows: rows.column("id").to_pylist(),
        )


class TestStdout(ConnectorSuite):
    connector = "stdout"

    @pytest.fixture
    def case(
        self, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
    ) -> Case:
        """What is printed is found where the process that printed it has its output: this one,
        Spark's, or a driver that was started and killed."""
        here: list[bytes] = []
        logs = tmp_path_factory.getbasetemp()
        known = set(logs.glob("rig[0-9]*/sink/driver.log"))
        before = len(_from_spark())

        def read_back() -> Sequence[bytes]:
            out = capsys.readouterr().out.encode().splitlines()
            # Here an empty line is an empty value; in a log it may be anything.
            here.extend(line for line in out if not line or PRINTED.match(line))
            fresh = sorted(set(logs.glob("rig[0-9]*/sink/driver.log")) - known)
            killed = [line for log in fresh for line in PRINTED.findall(log.read_bytes())]
            return [*here, *_from_spark()[before:], *killed]

        return Case(sink={"format": "text"}, read_back=read_back)


def _from_spark() -> list[bytes]:
    """What tasks have printed: Spark sends it to the standard error of its JVM."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return []
    output = Path(f"/proc/{gateway.proc.pid}/fd/2")
    if not output.is_file():
        raise AssertionError("Spark's output cannot be read here: run pytest without -s")
    return PRINTED.findall(output.read_bytes())
