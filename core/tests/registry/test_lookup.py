"""Distributions are made as folders with metadata, the way an installer leaves them."""

import subprocess
import sys
import textwrap
import warnings

import pytest

from penstock import registry
from penstock.contracts.errors import PluginError, UnknownNameError


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a distribution on the path: `install("penstock-x", "x", "code", group)`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.refresh()
    made = []

    def make(distribution, name, code, group="penstock.connectors", attribute="connector"):
        module = f"plugin_{len(made)}_{distribution.replace('-', '_')}"
        made.append(module)
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(code))
        info = tmp_path / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{attribute}\n")
        registry.refresh()
        return module

    yield make
    registry.refresh()
    for module in made:
        sys.modules.pop(module, None)


GOOD = """
    from penstock.connectors.stdout import StdoutSink
    from penstock.contracts import Connector
    connector = Connector(name="pump", sink=StdoutSink)
"""


def test_a_connector_is_found_by_its_entry_point(install):
    install("penstock-pump", "pump", GOOD)
    assert "pump" in registry.names("connectors")
    assert registry.connector("pump").can() == ["sink"]
    assert registry.entry("connectors", "pump").who == "pump (penstock-pump 1.0)"


def test_listing_names_imports_no_plugin(install):
    module = install("penstock-pump", "pump", GOOD)
    registry.names("connectors")
    assert module not in sys.modules


def test_a_broken_plugin_is_reported_by_name_and_harms_no_other(install):
    install("penstock-bad", "bad", "raise RuntimeError('no libfoo')")
    install("penstock-pump", "pump", GOOD)
    listed = {each.entry.name: each for each in registry.listing("connectors")}
    assert "no libfoo" in listed["bad"].broken
    assert "penstock-bad 1.0" in listed["bad"].broken
    assert listed["pump"].broken is None
    with pytest.raises(PluginError, match="no libfoo"):
        registry.connector("bad")
    assert registry.connector("pump").name == "pump"


def test_two_distributions_of_one_name_are_an_error_that_names_both(install):
    install("penstock-pump", "pump", GOOD)
    install("acme-pump", "pump", GOOD)
    with pytest.raises(PluginError, match="two distributions claim") as caught:
        registry.connector("pump")
    assert "acme-pump 1.0 and penstock-pump 1.0" in str(caught.value)
    broken = [e.broken for e in registry.listing("connectors") if e.entry.name == "pump"]
    assert len(broken) == 2
    assert all(broken)


@pytest.mark.parametrize(
    ("version", "upgrade"), [(0, "upgrade penstock-pump"), (99, "upgrade penstock")]
)
def test_a_plugin_for_other_contracts_is_refused(install, version, upgrade):
    install("penstock-pump", "pump", GOOD.replace("sink=", f"contracts={version}, sink="))
    with pytest.raises(PluginError, match=f"version {version} of the contracts") as caught:
        registry.connector("pump")
    assert caught.value.fix == upgrade


def test_an_entry_point_that_is_no_connector_is_refused(install):
    install("penstock-pump", "pump", "connector = 42")
    with pytest.raises(PluginError, match="names something else"):
        registry.connector("pump")


def test_an_unknown_connector_says_what_to_install():
    with pytest.raises(UnknownNameError) as caught:
        registry.connector("carrier-pigeon")
    assert caught.value.fix == "pip install penstock-carrier-pigeon"


def test_a_mistyped_connector_gets_a_suggestion():
    with pytest.raises(UnknownNameError, match="did you mean 'generator'"):
        registry.connector("generatr")


def test_hooks_are_called_and_a_raising_one_is_a_warning(install):
    code = """
        from penstock.registry import hookimpl
        seen = []
        class Listener:
            @hookimpl
            def penstock_batch_done(self, batch):
                seen.append(batch)
                if batch == 1:
                    raise RuntimeError("listener is broken")
        listener = Listener()
    """
    module = install("acme-hooks", "acme", code, "penstock.hooks", "listener")
    registry.hooks.cache_clear()
    try:
        registry.tell("batch_done", pipeline="p", batch=0, counts={})
        with pytest.warns(UserWarning, match="listener is broken"):
            registry.tell("batch_done", pipeline="p", batch=1, counts={})
        assert sys.modules[module].seen == [0, 1]
    finally:
        registry.hooks.cache_clear()


def test_a_broken_hook_plugin_is_left_out_with_a_warning(install):
    install("acme-hooks", "acme", "raise RuntimeError('broken')", "penstock.hooks", "listener")
    registry.hooks.cache_clear()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            registry.tell("stopped", pipeline="p")
        assert "acme-hooks" in str(caught[0].message)
    finally:
        registry.hooks.cache_clear()


def test_looking_up_connectors_imports_no_pyspark():
    code = (
        "import sys; from penstock import registry; registry.listing('connectors'); "
        "assert 'pyspark' not in sys.modules, 'pyspark was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
