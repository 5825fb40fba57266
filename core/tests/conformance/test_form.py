"""The reference coder and the reference transform pass their suites."""

import pytest

from penstock.conformance import CoderSuite, TransformSuite
from penstock.conformance.reference.cases import form_case, mask_case
from penstock.conformance.reference.form import FormCoder
from penstock.conformance.reference.mask import Mask


class TestForm(CoderSuite):
    coder = FormCoder

    @pytest.fixture
    def case(self):
        return form_case()


class TestMask(TransformSuite):
    transform = Mask

    @pytest.fixture
    def case(self):
        return mask_case()
