import re
import shutil

import pytest

from tests.packaging.layout import connectors, faults
from tests.packaging.wheels import ROOT

PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))


def test_every_plugin_folder_looks_the_same():
    assert PLUGINS, "no plugin was found: is this the whole repository?"
    assert [fault for folder in PLUGINS for fault in faults(folder)] == []


def test_no_folder_under_plugins_goes_unseen():
    folders = {path for path in (ROOT / "plugins").iterdir() if path.is_dir()}
    strangers = {path.name for path in folders - set(PLUGINS) if any(path.rglob("*.py"))}
    assert strangers == set()


def test_a_connector_has_one_plugin():
    names = [name for folder in PLUGINS for name in connectors(folder)]
    assert len(names) == len(set(names))


def test_no_plugin_is_named_in_the_core_or_in_the_tools():
    """One place: adding a plugin touches its own folder."""
    modules = "|".join(f"penstock_{folder.name}" for folder in PLUGINS)
    named = re.compile(rf"^\s*(?:from|import) (?:{modules})\b", re.MULTILINE)
    sources = [*ROOT.glob("core/src/**/*.py"), ROOT / "conftest.py"]
    assert [str(path) for path in sources if named.search(path.read_text())] == []
    for tool in ("pyproject.toml", "tox.ini"):
        text = (ROOT / tool).read_text()
        assert [f.name for f in PLUGINS if f"plugins/{f.name}" in text] == []


@pytest.fixture
def copy(tmp_path):
    """A good plugin folder to break."""
    folder = tmp_path / "localfile"
    shutil.copytree(ROOT / "plugins" / "localfile", folder)
    assert faults(folder) == []
    return folder


def test_a_missing_readme_is_a_fault(copy):
    (copy / "README.md").unlink()
    assert faults(copy) == ["localfile: README.md is missing"]


def test_a_missing_spark_module_is_a_fault(copy):
    (copy / "src" / "pyspark_penstock_localfile.py").unlink()
    assert "Spark will not find localfile" in faults(copy)[0]


def test_a_spark_module_that_does_more_than_bind_is_a_fault(copy):
    module = copy / "src" / "pyspark_penstock_localfile.py"
    module.write_text(module.read_text() + "import os\n" * 8)
    assert "must only bind" in faults(copy)[0]


def test_tests_without_a_test_are_a_fault(copy):
    shutil.rmtree(copy / "tests")
    (copy / "tests").mkdir()
    assert faults(copy)[0] == "localfile: tests/ has no tests"


def test_a_distribution_of_another_name_is_a_fault(copy):
    project = copy / "pyproject.toml"
    project.write_text(project.read_text().replace('"penstock-localfile"', '"localfile"'))
    assert "named localfile, not penstock-localfile" in faults(copy)[0]


def test_a_plugin_that_does_not_need_the_core_is_a_fault(copy):
    project = copy / "pyproject.toml"
    project.write_text(project.read_text().replace('"penstock>=', '"penstock-other>='))
    assert faults(copy) == ["localfile: it does not depend on penstock"]


def test_a_suite_that_does_not_come_with_the_wheel_is_a_fault(copy):
    (copy / "src" / "penstock_localfile" / "conformance.py").unlink()
    assert faults(copy) == ["localfile: no suite of localfile in the group penstock.conformance"]


def test_a_conformance_file_of_many_lines_is_a_fault(copy):
    file = copy / "tests" / "test_conformance.py"
    file.write_text(file.read_text() + "\n" * 10)
    assert "has 15 lines" in faults(copy)[0]


def test_a_conformance_file_that_runs_another_suite_is_a_fault(copy):
    file = copy / "tests" / "test_conformance.py"
    file.write_text(
        file.read_text().replace("import TestLocalfile", "import TestLocalfile as Idle")
    )
    assert faults(copy) == ["localfile: tests/test_conformance.py does not run TestLocalfile"]
    file.write_text('"""Nothing."""\n')
    assert faults(copy) == ["localfile: tests/test_conformance.py does not run TestLocalfile"]
