"""Each wheel alone in an empty environment, then all of them beside a broken one."""

import zipfile

import pytest

from tests.packaging import wheels
from tests.packaging.environments import Environment, make_wheel
from tests.packaging.layout import connectors

pytestmark = pytest.mark.packaging

PLUGINS = [project.name for project in wheels.projects()[1:]]
CORE_CONNECTORS = {"generator", "stdout"}
BUILT_IN = {"spark"}

# Discovery worked if the answer comes from our connector; Spark's own is DATA_SOURCE_NOT_FOUND.
ASK = """
for name in {names}:
    try:
        spark.read.format("penstock." + name).option("no_such_option", "1").load().collect()
        found[name] = "read without complaint"
    except Exception as error:
        found[name] = str(error)
"""

GENERATE = """
found["rows"] = spark.read.format("penstock.generator").option("rows", "100").load().count()
"""


@pytest.fixture(scope="module")
def built():
    paths = wheels.build()
    return dict(zip(["core", *PLUGINS], paths, strict=True))


@pytest.mark.parametrize("project", ["core", *PLUGINS])
def test_every_wheel_carries_the_licence(built, project):
    with zipfile.ZipFile(built[project]) as wheel:
        (name,) = [n for n in wheel.namelist() if n.endswith(".dist-info/licenses/LICENSE")]
        assert wheel.read(name) == (wheels.ROOT / "LICENSE").read_bytes()


def test_the_core_alone_reads_and_lists(built, tmp_path):
    environment = Environment(tmp_path / "env")
    environment.install(built["core"])
    listed = environment.connectors()
    assert set(listed) == CORE_CONNECTORS | BUILT_IN
    assert {entry["broken"] for entry in listed.values()} == {None}
    assert environment.spark(GENERATE) == {"rows": 100}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_plugin_alone_is_found_by_entry_point_and_by_spark(built, tmp_path, plugin):
    names = connectors(wheels.ROOT / "plugins" / plugin)
    environment = Environment(tmp_path / "env")
    environment.install(built["core"], built[plugin])

    needs = wheels.metadata(built[plugin]).get("Requires-Dist", "")
    brought = [p for p in PLUGINS if f"penstock-{p}" in needs]
    others = [name for p in brought for name in connectors(wheels.ROOT / "plugins" / p)]
    listed = environment.connectors()
    assert set(listed) == CORE_CONNECTORS | BUILT_IN | {*names, *others}
    assert {name: entry["broken"] for name, entry in listed.items()} == dict.fromkeys(listed)
    assert {listed[name]["distribution"] for name in names} == {f"penstock-{plugin}"}

    for name, answer in environment.spark(ASK.format(names=names)).items():
        assert "no_such_option" in answer, answer
        assert name in answer
        assert "DATA_SOURCE_NOT_FOUND" not in answer


@pytest.mark.parametrize("plugin", ["core", *PLUGINS])
def test_a_wheel_holds_its_own_modules_and_nothing_else(built, plugin):
    own = "penstock" if plugin == "core" else f"penstock_{plugin}"
    with zipfile.ZipFile(built[plugin]) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    modules = {top for top in tops if not top.endswith(".dist-info")}
    names = CORE_CONNECTORS if plugin == "core" else connectors(wheels.ROOT / "plugins" / plugin)
    assert modules == {own} | {f"pyspark_penstock_{name.replace('-', '_')}.py" for name in names}


@pytest.fixture(scope="module")
def beside_broken(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("broken")
    broken = make_wheel(
        folder,
        "penstock-broken",
        {
            "penstock_broken.py": "raise RuntimeError('the client library is too old')\n",
            "pyspark_penstock_broken.py": (
                "from penstock.spark.discovery import bind\n\nDefaultSource = bind('broken')\n"
            ),
        },
        "[penstock.connectors]\nbroken = penstock_broken:connector\n",
    )
    environment = Environment(folder / "env")
    environment.install(*built.values(), broken)
    return environment


def test_a_broken_plugin_is_reported_by_name_and_harms_no_other(beside_broken):
    listed = beside_broken.connectors()
    broken = listed.pop("broken")
    assert "the client library is too old" in broken["broken"]
    assert "penstock-broken" in broken["broken"]
    assert {name: entry["broken"] for name, entry in listed.items()} == dict.fromkeys(listed)
    assert set(listed) > CORE_CONNECTORS


def test_a_broken_plugin_does_not_stop_spark_from_finding_the_others(beside_broken):
    listed = beside_broken.connectors().values()
    names = sorted(entry["name"] for entry in listed if not entry["built_in"])
    names.remove("stdout")  # a sink only
    found = beside_broken.spark(ASK.format(names=names) + GENERATE)
    assert found.pop("rows") == 100
    assert "the client library is too old" in found.pop("broken")
    for name, answer in found.items():
        assert "no_such_option" in answer, f"{name}: {answer}"
