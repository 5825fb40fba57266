{%- if cookiecutter.__kind == "connectors" -%}
"""The conformance suite of this plugin: every clause arrives by inheritance."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from penstock.conformance import Case, ConnectorSuite

from {{ cookiecutter.__package }}.testing import fresh_place


class Test{{ cookiecutter.__class }}(ConnectorSuite):
    connector = "{{ cookiecutter.__name }}"

    @pytest.fixture
    def case(self, tmp_path: Path) -> Iterator[Case]:
        with fresh_place(tmp_path) as case:
            yield case
{%- elif cookiecutter.shape == "coder" -%}
"""The conformance suite of this plugin: every clause arrives by inheritance."""

import pytest
from penstock.conformance import CoderCase, CoderSuite

from {{ cookiecutter.__package }}.testing import sample


class Test{{ cookiecutter.__class }}(CoderSuite):
    coder = "{{ cookiecutter.__name }}"

    @pytest.fixture
    def case(self) -> CoderCase:
        return sample()
{%- else -%}
"""The conformance suite of this plugin: every clause arrives by inheritance."""

import pytest
from penstock.conformance import TransformCase, TransformSuite

from {{ cookiecutter.__package }}.testing import sample


class Test{{ cookiecutter.__class }}(TransformSuite):
    transform = "{{ cookiecutter.__name }}"

    @pytest.fixture
    def case(self) -> TransformCase:
        return sample()
{%- endif %}
