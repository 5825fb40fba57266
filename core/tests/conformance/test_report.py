"""Running a plugin's suite and telling what became of it."""

import json
import textwrap

import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock.conformance.report import run
from penstock.contracts.errors import SetupError, UnknownNameError

GOOD = """
import pytest
from penstock.conformance import CoderSuite
from penstock.conformance.reference.cases import form_case
from penstock.conformance.reference.form import FormCoder

class TestForm(CoderSuite):
    coder = FormCoder
    waivers = {"COD-12": "nobody narrows it"}

    @pytest.fixture
    def case(self):
        return form_case()
"""

BAD = """
import pytest
from attrs import evolve
from penstock.conformance import Case, ConnectorSuite
from penstock.conformance.reference.folder import connector as folder

class TestNoServer(ConnectorSuite):
    connector = folder

    @pytest.fixture
    def case(self, tmp_path):
        return Case(source={"path": str(tmp_path)}, sink={"path": str(tmp_path)})

class TestDeclaresLess(TestNoServer):
    connector = evolve(folder, capabilities=folder.capabilities - {"reconnects", "lag"})

class TestNoReason(TestNoServer):
    waivers = {"SRC-20": " ", "SRC-99": "no such clause"}
"""

WRONG = """
import pytest
from penstock.conformance import CoderSuite, TransformSuite
from penstock.conformance.reference.cases import form_case, mask_case
from penstock.conformance.reference.form import FormCoder
from penstock.conformance.reference.mask import Mask

class TestForm(CoderSuite):
    coder = FormCoder
    waivers = {"SRC-01": "of another suite"}
    case = pytest.fixture(lambda self: form_case())

class TestMask(TransformSuite):
    transform = Mask
    waivers = {"SRC-01": "of another suite"}
    case = pytest.fixture(lambda self: mask_case())
"""


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    file = tmp_path_factory.mktemp("good") / "test_form.py"
    file.write_text(textwrap.dedent(GOOD))
    output = file.with_name("report.json")
    return run("form", tests=file, seed=5, output=output), json.loads(output.read_text())


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    file = tmp_path_factory.mktemp("bad") / "test_folder.py"
    file.write_text(textwrap.dedent(BAD))
    report = run("folder", tests=file, arguments=["-k", "src_20 or src_19"])
    return report, {(each.suite, each.clause): each for each in report.outcomes}


def test_a_good_run_is_ok_and_says_each_clause(good):
    report, written = good
    assert report.ok, report.output
    assert report.counts["passed"] == 11
    assert report.seed == 5
    assert written["ok"] is True
    assert written["suite"]
    assert {row["clause"] for row in written["outcomes"]} >= {"COD-01", "COD-03"}
    assert "ok     COD-01" in str(report)


def test_a_waiver_is_told_with_its_reason(good):
    [waived] = [each for each in good[0].outcomes if each.outcome == "waived"]
    assert (waived.clause, waived.reason) == ("COD-12", "nobody narrows it")
    assert "WAIVED COD-12" in str(good[0])
    assert "waived conformance clauses" in good[0].output


def test_a_run_over_several_processes_reports_every_clause_and_waiver(good, tmp_path):
    file = tmp_path / "test_form.py"
    file.write_text(textwrap.dedent(GOOD))
    report = run("form", tests=file, seed=5, arguments=["-n", "2"])
    assert report.counts == good[0].counts
    assert [each.clause for each in report.outcomes] == [each.clause for each in good[0].outcomes]
    assert "TestForm COD-12 narrowed, it decodes the same columns: nobody narrows it" in (
        report.output
    )


def test_what_is_declared_cannot_be_skipped(bad):
    report, found = bad
    failed = found["TestNoServer", "SRC-20"]
    assert failed.outcome == "failed"
    assert "must give server=" in failed.reason
    assert not report.ok
    assert found["TestNoServer", "SRC-19"].outcome == "passed"


def test_what_is_not_declared_is_skipped_with_the_reason(bad):
    skipped = bad[1]["TestDeclaresLess", "SRC-19"]
    assert skipped.outcome == "skipped"
    assert "does not declare lag" in skipped.reason


def test_a_waiver_without_a_reason_or_of_no_clause_is_an_error(bad):
    wrong = bad[1]["TestNoReason", "SRC-20"]
    assert wrong.outcome in ("failed", "error")
    assert "SRC-99 is no clause" in wrong.reason
    assert "SRC-20 is waived without a reason" in wrong.reason


def test_a_coders_and_a_transforms_waivers_are_held_to_the_same(tmp_path):
    file = tmp_path / "test_wrong.py"
    file.write_text(textwrap.dedent(WRONG))
    found = run("wrong", tests=file, arguments=["-k", "cod_10 or trf_01"]).outcomes
    assert [each.clause for each in found] == ["COD-10", "TRF-01"]
    for each in found:
        assert each.outcome in ("failed", "error")
        assert "SRC-01 is no clause" in each.reason


def test_nothing_run_is_not_ok(tmp_path):
    file = tmp_path / "test_other.py"
    file.write_text("def test_something_else():\n    assert True\n")
    report = run("other", tests=file)
    assert not report.ok
    assert "nothing was run" in str(report)


def test_an_unknown_name_and_a_missing_file_are_told():
    with pytest.raises(UnknownNameError, match="surely-not-there"):
        run("surely-not-there")
    with pytest.raises(SetupError, match="no such test file"):
        run("form", tests="/no/such/file.py")


def test_the_command_line_prints_the_report_and_its_exit_code(tmp_path):
    file = tmp_path / "test_form.py"
    file.write_text(textwrap.dedent(GOOD))
    command = ["conformance", "form", "--tests", str(file), "--only", "cod_10", "--json"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["counts"]["passed"] == 1
    done = CliRunner().invoke(main, ["conformance", "surely-not-there"])
    assert done.exit_code == 2
