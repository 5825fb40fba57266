"""The suites of the transforms in the core."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock import registry
from penstock.conformance import TransformCase, TransformSuite
from penstock.contracts.options import parse


class TestXmlFilter(TransformSuite):
    transform = "xml-filter"

    @pytest.fixture
    def case(self) -> TransformCase:
        texts = [b"<o><t>1</t></o>", b"<o><t>200</t></o>", b"<o/>", b"<o><t>150</t></o>"]
        coder = parse(registry.coder("xml-node"), {})
        trees, errors = coder.parse(pa.array(texts, pa.binary()))  # type: ignore[union-attr]
        assert not errors
        wanted = [None, trees[1], None, trees[3]]
        return TransformCase(options={"where": "//o[t>100]"}, data=trees, wanted=wanted)
