"""The coders in the core pass their suite."""

import pytest

from penstock.conformance import CoderCase, CoderSuite

SCHEMA = "id long, name string, total double, at timestamp, tags array<string>, ok boolean"
FLAT = "id long, name string, total double, at timestamp, ok boolean"
DEEP = b"[" * 100_000
HUGE = b'{"id": ' + b"9" * 100_000 + b"}"


class TestBytes(CoderSuite):
    coder = "bytes"

    @pytest.fixture
    def case(self):
        return CoderCase(options={}, hostile=[b"\x00" * 2**20], nulls=0)


class TestText(CoderSuite):
    coder = "text"

    @pytest.fixture
    def case(self):
        return CoderCase(options={}, bad=[b"\xff\xfe\xfa"], hostile=[b"\xf0" * 2**20], nulls=0)


class TestJson(CoderSuite):
    coder = "json"

    @pytest.fixture
    def case(self):
        return CoderCase(
            options={"schema": SCHEMA},
            bad=[b"{", b"no json", b'{"id": "many"}', b"\xff", b'{"id": 1} {"id": 2}'],
            hostile=[DEEP, HUGE, b'{"name": "' + b"\\u0041" * 50_000],
            older={"schema": "id long, name string"},
            newer={"schema": "name string, id long, total double"},
        )


class TestCsv(CoderSuite):
    coder = "csv"

    @pytest.fixture
    def case(self):
        return CoderCase(
            options={"schema": FLAT, "null": "\\N"},
            bad=[b"many,x,1.0,2025-01-01T00:00:00Z,true", b"1", b'1,"open,1.0,,'],
            hostile=[b"," * 100_000, b'"' * 100_001, b"9" * 100_000],
        )
