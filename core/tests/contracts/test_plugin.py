import sys

import pytest

from penstock.contracts import Connector
from penstock.contracts.errors import PluginError


def test_a_class_given_by_its_place_is_imported_when_it_is_asked_for(monkeypatch):
    place = "penstock.connectors.stdout"
    monkeypatch.delitem(sys.modules, place, raising=False)
    found = Connector(name="out", sink=f"{place}:StdoutSink")
    assert found.can() == ["sink"]
    assert place not in sys.modules
    assert found.sink is sys.modules[place].StdoutSink
    assert found.source is None


@pytest.mark.parametrize(
    "place", ["no_such_module:Source", "penstock.connectors.generator:NoSuchSource"]
)
def test_a_place_that_cannot_be_imported_is_the_plugins_fault_and_says_which(place):
    with pytest.raises(PluginError, match="the plugin fails to load") as caught:
        _ = Connector(name="broken", source=place).source
    assert "broken" in str(caught.value)
    assert place in str(caught.value)


def test_a_source_given_by_its_place_must_have_the_declared_shape():
    claimed = Connector(
        name="tap", source="penstock.connectors.generator:GeneratorSource", queue=True
    )
    assert claimed.can() == ["queue"]
    with pytest.raises(PluginError, match="declares another shape"):
        _ = claimed.source
