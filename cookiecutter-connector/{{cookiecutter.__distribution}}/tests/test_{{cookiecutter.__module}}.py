"""CHANGE: what is particular to {{ cookiecutter.__name }} and in no clause."""

from penstock import registry


def test_it_is_listed_by_its_name() -> None:
    assert "{{ cookiecutter.__name }}" in registry.names("{{ cookiecutter.__kind }}")
