"""Functions reach workers that cannot import their module; no Spark session needed."""

import importlib
import subprocess
import sys

import pytest
from pyspark import cloudpickle

import penstock as pen
from penstock.spark.travel import let_travel

MODULE = """
from {package}.prices import tax

def priced(record):
    return {{**record, "tax": tax(record["total"])}}
"""
LOADS = """
import pickle, sys
from pyspark import cloudpickle
function = cloudpickle.loads(sys.stdin.buffer.read())
print(function({"total": 100.0})["tax"])
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A package in a folder that only this process has on its path."""
    package = f"shop_{tmp_path.name.replace('-', '_')}"
    folder = tmp_path / "lib" / package
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "prices.py").write_text("def tax(total):\n    return total * 0.25\n")
    (folder / "orders.py").write_text(MODULE.format(package=package))
    monkeypatch.syspath_prepend(tmp_path / "lib")
    yield importlib.import_module(f"{package}.orders")
    for name in [name for name in sys.modules if name.startswith(package)]:
        if name in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.unregister_pickle_by_value(sys.modules[name])
        del sys.modules[name]


def plan_of(function):
    return pen.pipeline("p").source("generator", rows=1).map(function).sink("stdout").analyse()


def elsewhere(function):
    """What a process without that path makes of the function."""
    done = subprocess.run(
        [sys.executable, "-c", LOADS],
        input=cloudpickle.dumps(function),
        capture_output=True,
        cwd="/",
        timeout=120,
    )
    return done.stdout.decode().strip(), done.stderr.decode()


def test_a_module_that_workers_cannot_import_travels_with_those_it_uses(shop):
    package = shop.__name__.partition(".")[0]
    assert elsewhere(shop.priced)[0] == ""
    sent = let_travel(plan_of(shop.priced), local=True)
    assert sent == [package, f"{package}.orders", f"{package}.prices"]
    assert elsewhere(shop.priced) == ("25.0", "")


def test_what_workers_can_import_goes_by_its_name(shop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "lib")
    assert let_travel(plan_of(shop.priced), local=True) == []
    assert let_travel(plan_of(str.upper), local=True) == []


def test_on_a_cluster_the_drivers_folder_is_out_of_reach(shop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "lib")
    assert len(let_travel(plan_of(shop.priced), local=False)) == 3


def test_what_is_installed_for_development_is_not_sent_along(monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    sent = let_travel(plan_of(lambda record: record), local=True)
    assert __name__ in sent
    assert not [name for name in sent if name.split(".")[0].startswith("penstock")]
    for name in sent:
        cloudpickle.unregister_pickle_by_value(sys.modules[name])
