"""The template under every combination of answers, as far as that goes without installing it."""

import ast
import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime

import pytest

from penstock.cli import main
from penstock.contracts.errors import OptionError
from penstock.scaffold import LICENCES, SHAPES, new
from tests.template.deriving import FILES, derived
from tests.template.places import PACKAGE

MOST = 120
COPYRIGHT = f"Copyright (c) {datetime.now(UTC).year} the authors of penstock-rain-gauge\n"
TOLD = {
    "Apache-2.0": ["Version 2.0, January 2004", "9. Accepting Warranty", "END OF TERMS"],
    "MIT": ["MIT License", COPYRIGHT, "The above copyright notice", "OTHER DEALINGS"],
    "BSD-3-Clause": [COPYRIGHT, "3. Neither the name", "POSSIBILITY OF SUCH DAMAGE"],
    "Proprietary": ["All rights reserved."],
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_templates_code_is_the_references(name):
    assert (PACKAGE / name).read_text() == derived(name), (
        "the template fell behind its reference: python -m tests.template.deriving"
    )


@pytest.mark.parametrize(("shape", "licence"), list(itertools.product(SHAPES, LICENCES)))
def test_every_combination_of_answers_gives_a_whole_project(tmp_path, shape, licence):
    project = new("rain-gauge", shape, licence, tmp_path)

    assert project.name == "penstock-rain-gauge"
    about = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    kind = {"coder": "coders", "transform": "transforms"}.get(shape, "connectors")
    assert set(about["entry-points"][f"penstock.{kind}"]) == {"rain-gauge"}
    assert about.get("license") == (None if licence == "Proprietary" else licence)
    told = (project / "LICENSE").read_text()
    assert all(word in told for word in TOLD[licence]), told
    readme = (project / "README.md").read_text()
    for command in re.findall(r"^penstock (\w+)", readme, re.MULTILINE):
        assert command in main.list_commands(None), f"the README names penstock {command}"
    for file in project.rglob("*.py"):
        ast.parse(file.read_text(), str(file))
    whole = "".join(f.read_text() for f in project.rglob("*") if f.is_file())
    assert "cookiecutter" not in whole
    assert "CHANGE" in whole
    for wanted in ("README.md", "tox.ini", ".github/workflows/ci.yml", "tests/test_conformance.py"):
        assert (project / wanted).is_file()
    sparks = list((project / "src").glob("pyspark_*"))
    assert len(sparks) == (1 if kind == "connectors" else 0)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s not in ("coder", "transform")])
def test_listing_a_connector_imports_nothing_but_its_declaration(tmp_path, shape):
    project = new("rain", shape, folder=tmp_path)
    listing = (
        "import json, sys; from penstock_rain.connector import connector; connector.can();"
        "print(json.dumps([m for m in sys.modules if m.partition('.')[0] in"
        " ('penstock_rain', 'pyarrow', 'pyspark')]))"
    )
    path = os.pathsep.join([str(project / "src"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", listing],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["penstock_rain", "penstock_rain.connector"]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_conformance_class_is_under_ten_lines(tmp_path, shape):
    project = new("rain", shape, folder=tmp_path)
    [made] = ast.parse((project / "src/penstock_rain/conformance.py").read_text()).body[-1:]
    assert isinstance(made, ast.ClassDef)
    assert made.end_lineno - made.lineno + 1 < 10


def test_a_queue_over_a_given_client_is_at_most_120_lines_of_the_authors_own(tmp_path):
    project = new("rain", "queue", folder=tmp_path)
    lines = (project / "src/penstock_rain/queue.py").read_text().splitlines()
    own = [line for line in lines if line.strip()]
    assert len(own) <= MOST, f"{len(own)} lines"


@pytest.mark.parametrize("name", ["Rain", "rain_gauge", "9rain", "rain--gauge", "", "../rain"])
def test_a_name_that_is_none_is_refused(tmp_path, name):
    with pytest.raises(OptionError, match="no name"):
        new(name, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_shape_is_refused_with_a_suggestion(tmp_path):
    with pytest.raises(OptionError, match="did you mean 'source'"):
        new("rain", "sourse", folder=tmp_path)


def test_a_folder_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "penstock-rain").mkdir()
    with pytest.raises(OptionError, match="there already"):
        new("rain", folder=tmp_path)
    assert list((tmp_path / "penstock-rain").iterdir()) == []
