"""The catalogue of clauses, and that the contracts cite it rightly."""

import re
from pathlib import Path

import pytest

import penstock.contracts
from penstock.conformance import catalogue, clause
from penstock.conformance.clauses import SHAPES, clauses_of
from penstock.conformance.gate import ABOUT
from penstock.contracts import CAPABILITIES

CONTRACTS = Path(penstock.contracts.__file__).parent


# An id is for ever: reports, waivers and docstrings cite it. A new clause raises a number here.
LAST = {"OPT": 7, "SHP": 6, "SRC": 24, "QUE": 20, "SNK": 19, "ERR": 4, "COD": 12, "TRF": 7}


def test_no_id_vanishes_or_is_left_out():
    ids = {f"{prefix}-{n:02d}" for prefix, last in LAST.items() for n in range(1, last + 1)}
    assert {each.id for each in catalogue()} == ids


def test_ids_are_unique_and_titles_say_something():
    ids = [each.id for each in catalogue()]
    assert len(ids) == len(set(ids))
    assert len(ids) > 80
    for each in catalogue():
        assert len(each.title.split()) >= 2
        assert len(each.text.split()) >= 8, each.id
        assert each.text.endswith((".", ".)")), each.id


def test_a_test_is_named_after_its_clause():
    from penstock.conformance import CoderSuite, ConnectorSuite, TransformSuite

    for suite in (ConnectorSuite, CoderSuite, TransformSuite):
        for name in dir(suite):
            found = getattr(getattr(suite, name), "__clause__", None)
            if found is not None:
                assert name.startswith(f"test_{found.id.lower().replace('-', '_')}_")


def test_capabilities_that_clauses_need_exist():
    assert {each.needs for each in catalogue() if each.needs} <= set(CAPABILITIES)


def test_every_capability_is_held_to_by_a_clause_of_every_shape_that_may_declare_it():
    assert set(ABOUT) == set(CAPABILITIES)
    held = {
        (capability, side)
        for each in catalogue()
        for capability in (each.needs, *each.tries)
        for side in each.sides
    }
    pairs = {(capability, side) for capability, about in ABOUT.items() for side in about}
    assert pairs - held == set()


def test_what_docstrings_of_the_contracts_cite_exists():
    known = {each.id for each in catalogue()}
    cited = {
        id
        for file in CONTRACTS.glob("*.py")
        for id in re.findall(rf"\b(?:{'|'.join(SHAPES)})-\d\d\b", file.read_text())
    }
    assert cited
    assert cited <= known


def test_a_clause_needs_an_id_and_a_paragraph():
    with pytest.raises(ValueError, match="no id"):
        clause("XXX-01", "what is this")
    with pytest.raises(ValueError, match="docstring"):

        @clause("SRC-99", "no words")
        def test_nothing():
            pass


def test_two_tests_of_one_id_are_refused():
    class Twice:
        @clause("SRC-98", "once")
        def test_one(self):
            """It is said once."""

        @clause("SRC-98", "twice")
        def test_two(self):
            """It is said twice."""

    with pytest.raises(ValueError, match="SRC-98"):
        clauses_of(Twice)
