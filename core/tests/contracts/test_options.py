import pickle
from typing import Literal

import attrs
import pytest

from penstock.contracts import Configured, Secret, at_least, connector, option
from penstock.contracts.errors import OptionError
from penstock.contracts.options import (
    json_schema,
    parse,
    parse_together,
    shown,
    table,
    to_strings,
)


@connector
class Pump(Configured):
    path: str = option(doc="Where.")
    rows: int = option(default=3, doc="How many.", check=at_least(1))
    size: int = option(default=8, unit="bytes", doc="How large.")
    wait: float = option(default=1.0, unit="seconds", doc="How long.")
    mode: Literal["push", "pull"] = option(default="push", doc="Which way.")
    names: list[str] = option(factory=list, doc="Names.")
    fast: bool = option(default=False, doc="Whether to hurry.")
    password: Secret | None = option(default=None, doc="The password.")
    kafka: dict[str, str] = option(prefix="kafka.", doc="Passed through.")

    def settle(self) -> None:
        if self.fast and self.mode == "pull":
            raise OptionError("fast and mode=pull contradict each other", fix="drop fast")


@connector
class Extra(Configured):
    limit: int | None = option(default=None, doc="A limit.")


def test_strings_become_the_declared_types():
    pump = parse(
        Pump,
        {
            "path": "in",
            "ROWS": "5",
            "size": "2 MiB",
            "wait": "3 min",
            "mode": "PULL",
            "names": "a, b",
            "fast": "false",
        },
    )
    assert (pump.rows, pump.size, pump.wait) == (5, 2 * 2**20, 180.0)
    assert (pump.mode, pump.names, pump.fast) == ("pull", ["a", "b"], False)


def test_python_values_are_taken_as_they_are():
    pump = parse(Pump, {"path": "in", "rows": 7, "names": ["x"], "fast": True})
    assert (pump.rows, pump.names, pump.fast) == (7, ["x"], True)


def test_an_unknown_option_is_refused_with_a_suggestion_even_when_a_required_one_is_missing():
    with pytest.raises(OptionError) as caught:
        parse(Pump, {"pth": "in"}, who="pump (penstock-pump 1.0)")
    assert "pump (penstock-pump 1.0): the option pth is unknown" in str(caught.value)
    assert "did you mean 'path'?" in str(caught.value)


def test_a_missing_required_option_is_named():
    with pytest.raises(OptionError, match="the option path is missing"):
        parse(Pump, {})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"rows": "many"}, "whole number"),
        ({"rows": 1.5}, "whole number"),
        ({"rows": True}, "whole number"),
        ({"size": "8 potatoes"}, "size"),
        ({"mode": "sideways"}, "one of push, pull"),
        ({"fast": "maybe"}, "true or false"),
        ({"names": 3}, "list of text"),
    ],
)
def test_a_wrong_type_says_what_was_expected(given, expected):
    with pytest.raises(OptionError) as caught:
        parse(Pump, {"path": "in", **given})
    assert expected in str(caught.value.expected)
    assert next(iter(given)) in caught.value.message


def test_a_value_out_of_range_is_refused():
    with pytest.raises(OptionError, match="rows must be at least 1"):
        parse(Pump, {"path": "in", "rows": 0})


def test_contradictory_options_are_refused():
    with pytest.raises(OptionError, match="contradict"):
        parse(Pump, {"path": "in", "fast": True, "mode": "pull"})


def test_prefixed_options_are_collected_and_their_secrets_hidden():
    pump = parse(Pump, {"path": "in", "kafka.a.b": "1", "kafka.sasl.password": "canary"})
    assert pump.kafka["a.b"] == "1"
    assert pump.kafka["sasl.password"].reveal() == "canary"
    assert "canary" not in repr(pump)
    assert "canary" not in str(shown(pump))


def test_options_go_to_spark_strings_and_back():
    pump = parse(Pump, {"path": "in", "names": ["a", "b"], "fast": True, "kafka.x": "1"})
    assert parse(Pump, to_strings(pump)) == pump


def test_options_of_two_classes_share_one_bag():
    pump, extra = parse_together([Pump, Extra], {"path": "in", "limit": "4"})
    assert (pump.path, extra.limit) == ("in", 4)


def test_the_table_and_the_json_schema_name_every_option():
    names = {row["name"] for row in table(Pump)}
    assert names == {
        "path", "rows", "size", "wait", "mode", "names", "fast", "password", "kafka.*"
    }  # fmt: skip
    schema = json_schema(Pump)
    assert schema["required"] == ["path"]
    assert schema["properties"]["mode"]["enum"] == ["push", "pull"]
    assert schema["additionalProperties"] is False


def test_a_connector_is_frozen_and_pickles():
    pump = Pump(path="in", password=Secret("canary"))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        pump.path = "out"
    assert pickle.loads(pickle.dumps(pump)) == pump


def test_a_reference_outside_a_secret_is_resolved_when_it_is_parsed(monkeypatch, tmp_path):
    monkeypatch.setenv("WHERE", "there")
    assert parse(Pump, {"path": "${env:WHERE}/x"}).path == "there/x"
    (tmp_path / "p").write_text("from-file\n")
    assert parse(Pump, {"path": f"${{file:{tmp_path}/p}}"}).path == "from-file"


def test_an_unset_reference_says_which(monkeypatch):
    monkeypatch.delenv("NOWHERE", raising=False)
    with pytest.raises(OptionError, match="NOWHERE is not set"):
        parse(Pump, {"path": "${env:NOWHERE}"})
