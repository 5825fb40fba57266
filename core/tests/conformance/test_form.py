"""The reference coder and the reference transform pass their suites."""

import pyarrow as pa
import pytest

from penstock.conformance import CoderCase, CoderSuite, TransformCase, TransformSuite
from penstock.conformance.reference.form import FormCoder
from penstock.conformance.reference.mask import Mask


class TestForm(CoderSuite):
    coder = FormCoder

    @pytest.fixture
    def case(self):
        return CoderCase(
            options={"columns": ["id", "name"]},
            bad=[b"no equals sign", b"a=%FF", b"\xff\xfe", b"a=1&&&&b"],
            hostile=[b"a=" + b"%41" * 100_000, b"&" * 100_000, b"a=1&" * 50_000],
            older={"columns": ["id"]},
            newer={"columns": ["name", "id", "mail"]},
        )


class TestMask(TransformSuite):
    transform = Mask

    @pytest.fixture
    def case(self):
        return TransformCase(
            options={"column": "mail", "drop_missing": True},
            data=pa.RecordBatch.from_pylist(
                [{"id": 1, "mail": "a@b.org"}, {"id": 2, "mail": None}, {"id": 3, "mail": "c"}]
            ),
            wanted=[{"id": 1, "mail": "5b26064bbe84"}, {"id": 3, "mail": "2e7d2c03a950"}],
        )
