"""What the template generates: built, installed into an empty environment, tested, used."""

import json
import subprocess

import pytest

from penstock.scaffold import SHAPES, new
from tests.packaging import wheels
from tests.packaging.environments import Environment

pytestmark = pytest.mark.packaging

# One shape in the usual packaging run; the whole matrix takes minutes.
CASES = [
    shape if shape == "source-and-sink" else pytest.param(shape, marks=pytest.mark.slow)
    for shape in SHAPES
]

USE = {
    "source": """
from penstock.conformance.oracle import Oracle
from penstock.conformance.records import made, envelopes
from penstock_rain.segments import append
from pathlib import Path
import tempfile
folder = Path(tempfile.mkdtemp())
append(folder, "0", envelopes(made(Oracle(20, 1))))
found["rows"] = spark.read.format("penstock.rain").option("path", str(folder)).load().count()
""",
    "queue": """
from penstock.conformance.oracle import Oracle
from penstock.conformance.records import made
from penstock_rain.testing import fresh_place
from pathlib import Path
import tempfile
with fresh_place(Path(tempfile.mkdtemp())) as case:
    case.seed(made(Oracle(20, 1)), 0)
    reading = spark.read.format("penstock.rain").option("drain", "true").option("quiet", "1 s")
    found["rows"] = reading.options(**{k: str(v) for k, v in case.source.items()}).load().count()
""",
    "sink": """
from penstock_rain.testing import fresh_place
from pathlib import Path
import tempfile
with fresh_place(Path(tempfile.mkdtemp())) as case:
    rows = spark.range(20).selectExpr("cast(id as string) value")
    rows.write.format("penstock.rain").options(**case.sink).mode("append").save()
    found["rows"] = len(case.read_back())
""",
    "source-and-sink": """
import tempfile
folder = tempfile.mkdtemp()
rows = spark.range(20).selectExpr("cast(id as string) value")
rows.write.format("penstock.rain").option("path", folder).mode("append").save()
found["rows"] = spark.read.format("penstock.rain").option("path", folder).load().count()
""",
    "coder": """
import pyarrow as pa
from penstock import registry
coder = registry.coder("rain")(columns=["id"])
found["rows"] = coder.decode(pa.array([b"id=1"] * 20)).rows.num_rows
""",
    "transform": """
import pyarrow as pa
from penstock import registry
mask = registry.transform("rain")(column="mail")
found["rows"] = mask.apply(pa.record_batch({"mail": ["a"] * 20}))[0].num_rows
""",
}


@pytest.fixture(scope="module")
def core():
    return wheels.build()[0]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shape", CASES)
def test_it_works_at_once(core, tmp_path, shape):
    project = new("rain", shape, folder=tmp_path)
    build = ["build", "--quiet", "--wheel", "--out-dir", str(tmp_path / "dist"), str(project)]
    wheels.uv(*build)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    environment = Environment(tmp_path / "env")
    environment.install(core, wheel)
    tools = ["pytest", "pytest-timeout", "ruff", "mypy"]
    wheels.uv("pip", "install", "--quiet", "--python", str(environment.python), *tools)

    _inside(environment, project, "-m", "ruff", "check", "src", "tests")
    _inside(environment, project, "-m", "ruff", "format", "--check", "src", "tests")
    _inside(environment, project, "-m", "mypy")
    said = _inside(environment, project, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "passed" in said
    assert "failed" not in said

    short = ["--only", "opt_01 or cod_01 or trf_01", "--json"]
    report = json.loads(environment.run("penstock", "conformance", "rain", *short))
    assert report["ok"]
    assert report["distribution"] == "penstock-rain 0.1.0"

    kind = {"coder": "coders", "transform": "transforms"}.get(shape, "connectors")
    names = "import json; from penstock import registry; print(json.dumps(registry.names({!r})))"
    listed = json.loads(environment.run("python", "-c", names.format(kind)))
    assert "rain" in listed
    if kind == "connectors":
        assert environment.connectors()["rain"]["broken"] is None
    assert environment.spark(USE[shape]) == {"rows": 20}


def test_an_installed_penstock_has_its_template(core, tmp_path):
    environment = Environment(tmp_path / "env")
    environment.install(core)
    wheels.uv("pip", "install", "--quiet", "--python", str(environment.python), "cookiecutter")
    made = environment.run("penstock", "new", "rain", "--shape", "coder", "--json")
    assert json.loads(made)["name"] == "rain"
    assert (environment.folder / "penstock-rain" / "src" / "penstock_rain" / "coder.py").is_file()


def _inside(environment, project, *arguments):
    done = subprocess.run(
        [str(environment.python), *arguments], cwd=project, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    return done.stdout
