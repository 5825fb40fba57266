"""The suite, run on what is installed."""

from {{ cookiecutter.__package }}.conformance import Test{{ cookiecutter.__class }}

__all__ = ["Test{{ cookiecutter.__class }}"]
