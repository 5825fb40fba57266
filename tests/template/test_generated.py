"""What the template generates: built, installed into an empty environment, tested, used."""

import itertools
import json
import subprocess
from pathlib import Path

import pytest
from attrs import frozen

from penstock.scaffold import LICENCES, SHAPES, new
from tests.packaging import wheels
from tests.packaging.environments import Environment
from tests.template.places import with_spark

pytestmark = pytest.mark.packaging

# Two shapes in the usual packaging run; the whole matrix takes minutes.
QUICK = ("source-and-sink", "coder")
CASES = [
    shape if shape in QUICK else pytest.param(shape, marks=pytest.mark.slow) for shape in SHAPES
]

KINDS = {"coder": "coders", "transform": "transforms"}
# One name has a dash, which a package, a class and a module of Spark's cannot have.
NAMES = {shape: "rain-gauge" if shape == "source-and-sink" else "rain" for shape in SHAPES}
# More shapes than licences: so all of them are built.
CHOSEN = dict(zip(SHAPES, itertools.cycle(LICENCES), strict=False))

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
rows.write.format("penstock.rain-gauge").option("path", folder).mode("append").save()
found["rows"] = spark.read.format("penstock.rain-gauge").option("path", folder).load().count()
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


@frozen
class Generated:
    """A project as the template makes it, and an environment that has its wheel and the core's."""

    project: Path
    wheel: Path
    environment: Environment

    def python(self, *arguments):
        """Run a module in the project's folder."""
        done = subprocess.run(
            [str(self.environment.python), *arguments],
            cwd=self.project,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def generated(core, tmp_path_factory):
    """Makes, builds and installs a project of a shape; once for all tests."""
    made = {}

    def make(shape):
        if shape not in made:
            folder = tmp_path_factory.mktemp(shape)
            project = new(NAMES[shape], shape, CHOSEN[shape], folder)
            wheels.uv(
                "build", "--quiet", "--wheel", "--out-dir", str(folder / "dist"), str(project)
            )
            [wheel] = (folder / "dist").glob("*.whl")
            environment = Environment(folder / "env")
            environment.install(core, wheel)
            tools = ["pytest", "pytest-timeout", "ruff", "mypy"]
            wheels.uv("pip", "install", "--quiet", "--python", str(environment.python), *tools)
            made[shape] = Generated(project, wheel, environment)
        return made[shape]

    return make


@pytest.mark.timeout(600)
@pytest.mark.parametrize("shape", CASES)
def test_it_works_at_once(generated, shape):
    made = generated(shape)
    made.python("-m", "ruff", "check", "src", "tests")
    made.python("-m", "ruff", "format", "--check", "src", "tests")
    made.python("-m", "mypy")
    quick = ["-k", f"not ({with_spark()})"]
    said = made.python("-m", "pytest", "-q", "-p", "no:cacheprovider", *quick)
    assert " passed" in said
    assert " failed" not in said

    about = wheels.metadata(made.wheel)
    licence = CHOSEN[shape]
    assert about.get("License-Expression") == (None if licence == "Proprietary" else licence)
    assert about["License-File"] == "LICENSE"

    name, kind = NAMES[shape], KINDS.get(shape, "connectors")
    names = "import json; from penstock import registry; print(json.dumps(registry.names({!r})))"
    environment = made.environment
    listed = json.loads(environment.run("python", "-c", names.format(kind)))
    assert name in listed
    if kind == "connectors":
        assert environment.connectors()[name]["broken"] is None


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "shape",
    [s if s == "source-and-sink" else pytest.param(s, marks=pytest.mark.slow) for s in SHAPES],
)
def test_spark_reads_or_writes_through_it(generated, shape):
    assert generated(shape).environment.spark(USE[shape]) == {"rows": 20}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("shape", CASES)
def test_the_command_line_finds_the_suite_of_an_installed_wheel(generated, shape):
    short = ["--only", "opt_01 or cod_01 or trf_01"]
    environment, name = generated(shape).environment, NAMES[shape]
    report = json.loads(environment.run("penstock", "conformance", name, *short, "--json"))
    assert report["ok"]
    assert report["distribution"] == f"penstock-{name} 0.1.0"
    assert report["suite"]
    assert [row["outcome"] for row in report["outcomes"]] == ["passed"]
    told = environment.run("penstock", "conformance", name, *short)
    assert told.startswith(f"{name} (penstock-{name} 0.1.0), suite ")
    assert told.rstrip().endswith("ok: 1 passed")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_keeps_every_clause(generated, shape):
    environment = generated(shape).environment
    said = environment.run("penstock", "conformance", NAMES[shape], "--json", within=800)
    report = json.loads(said)
    assert report["ok"]
    assert report["counts"]["waived"] == 0
    assert report["counts"]["passed"] >= {"coder": 12, "transform": 6, "sink": 26}.get(shape, 30)


def test_an_installed_penstock_has_its_template_and_its_own_suites(core, tmp_path):
    environment = Environment(tmp_path / "env")
    environment.install(core)
    tools = ["cookiecutter", "pytest"]
    wheels.uv("pip", "install", "--quiet", "--python", str(environment.python), *tools)
    made = environment.run("penstock", "new", "rain", "--shape", "coder", "--json")
    assert json.loads(made)["name"] == "rain"
    assert (environment.folder / "penstock-rain" / "src" / "penstock_rain" / "coder.py").is_file()
    report = json.loads(environment.run("penstock", "conformance", "json", "--json"))
    assert report["ok"]
    assert {row["suite"] for row in report["outcomes"]} >= {"TestJson", "TestJsonArrays"}
