"""`penstock conformance NAME` where only wheels are installed, against servers it is told of."""

import json

import pytest

from penstock.contracts.errors import SetupError
from tests.brokers import suites
from tests.packaging import wheels
from tests.packaging.environments import Environment
from tests.packaging.layout import connectors

pytestmark = [pytest.mark.packaging, pytest.mark.server]

on_kafka, on_rabbitmq = suites.kafka, suites.rabbitmq
on_artemis, on_sshd = suites.artemis, suites.sshd

SERVERS = {
    "amqp": "on_rabbitmq",
    "jms": "on_artemis",
    "kafka": "on_kafka",
    "remotefile": "on_sshd",
}
CHEAP = "opt_01 or opt_05 or shp_01 or src_01 or src_20 or que_05 or que_14 or snk_02 or snk_18"
KILLING = {"SRC-20", "QUE-14", "SNK-18"}
PLUGINS = {name: folder.name for folder in wheels.projects()[1:] for name in connectors(folder)}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """All our wheels in an empty environment, with what the suite needs."""
    environment = Environment(tmp_path_factory.mktemp("conformance") / "env")
    environment.install(*wheels.build())
    wheels.uv("pip", "install", "--quiet", "--python", str(environment.python), "pytest")
    return environment


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(SERVERS))
def test_a_suite_runs_from_its_wheel_against_a_server_that_is_named(installed, name, request):
    server = request.getfixturevalue(SERVERS[name])
    given = [f"--option={key}={value}" for key, value in server.options.items()]
    command = ["conformance", name, "--server", server.address, *given]
    report = json.loads(installed.run("penstock", *command, "--only", CHEAP, "--json"))
    assert report["ok"]
    assert report["proof"] == "real server"
    assert report["distribution"] == f"penstock-{PLUGINS[name]} 0.1.0"
    found = {row["clause"]: row for row in report["outcomes"]}
    passed = {clause for clause, row in found.items() if row["outcome"] == "passed"}
    assert passed >= {"OPT-01", "OPT-05", "SHP-01", "SNK-02"}
    for clause in KILLING & found.keys():
        assert found[clause]["outcome"] == "skipped"
        assert found[clause]["reason"]
    assert "not ours to kill" in found["SNK-18"]["reason"]


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_every_wheel_brings_its_suite_and_says_if_it_wants_a_server(installed, name):
    ask = ("penstock", "conformance", name, "--only", "opt_01", "--json")
    if name not in SERVERS:
        assert json.loads(installed.run(*ask))["ok"]
        return
    said = json.loads(installed.run(*ask, code=SetupError.exit_code))
    assert said["error"] == "SetupError"
    assert said["message"].startswith(f"the suite of {name} runs against a server")
    assert "--server" in said["fix"]
