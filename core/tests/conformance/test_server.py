"""A suite that runs against a server which its user names."""

import json
import os
import sys

import pytest
from click.testing import CliRunner

from penstock import registry
from penstock.cli import main
from penstock.conformance.reference.process import BrokerProcess
from penstock.conformance.reference.sockets import connector
from penstock.conformance.report import run
from penstock.conformance.server import ADDRESS, Server, named, naming
from penstock.contracts.errors import OptionError, SetupError

SUITE = """
import pytest
from penstock.conformance import Case, ConnectorSuite

class TestDrawer(ConnectorSuite):
    connector = "drawer"
    server = "the port of a drawer, such as 4711"

    @pytest.fixture
    def case(self, penstock_server):
        untried = penstock_server.untried
        if "password" not in penstock_server.options:
            untried["wrong_credentials"] = "the drawer has no lock"
        source, sink = penstock_server.options_of(self.found())
        port = {"port": penstock_server.address}
        return Case(
            source={**port, **source},
            sink={**port, **sink},
            untried=untried,
            proof=penstock_server.proof,
            wrong_credentials={"password": "open barley"},
        )
"""
DECLARED = """
from attrs import evolve
from penstock.conformance.reference.sockets import connector as sockets

connector = evolve(sockets, name="drawer")
"""
POINTS = """
[penstock.connectors]
drawer = drawer_declared:connector
[penstock.conformance]
drawer = drawer_suite
"""
CHEAP = "opt_01 or opt_05 or que_05 or que_14 or snk_18"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A connector `drawer` and its suite, as if a wheel had brought them."""
    info = tmp_path / "drawer-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: drawer\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(POINTS)
    (tmp_path / "drawer_suite.py").write_text(SUITE)
    (tmp_path / "drawer_declared.py").write_text(DECLARED)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.delenv(ADDRESS, raising=False)
    registry.refresh()
    yield
    monkeypatch.undo()
    registry.refresh()
    sys.modules.pop("drawer_suite", None)


@pytest.fixture
def broker(tmp_path):
    with BrokerProcess(tmp_path / "broker", password="open sesame") as broker:
        yield broker


def outcomes(report):
    return {row["clause"]: (row["outcome"], row["reason"]) for row in report["outcomes"]}


def test_a_suite_runs_against_the_server_that_the_command_line_names(installed, broker):
    command = ["conformance", "drawer", "--server", str(broker.port), "--only", CHEAP, "--json"]
    done = CliRunner().invoke(main, [*command, "--option", "password=open sesame"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert report["proof"] == "real server"
    assert report["distribution"] == "drawer 1.2"
    found = outcomes(report)
    assert {clause for clause, (outcome, _) in found.items() if outcome == "passed"} == {
        "OPT-01",
        "OPT-05",
        "QUE-05",
    }


def test_what_would_kill_the_server_is_skipped_with_id_and_reason(installed, broker):
    report = run(
        "drawer",
        server=str(broker.port),
        options={"password": "open sesame"},
        emulator=True,
        arguments=["-k", CHEAP],
    )
    found = outcomes(report.to_json())
    for clause in ("QUE-14", "SNK-18"):
        assert found[clause] == (
            "skipped",
            f"{clause}: {named({ADDRESS: '1'}).untried['reconnects']}",
        )
    assert "--     QUE-14" in str(report)
    assert "is not ours to kill" in str(report)
    assert ", against emulator, " in str(report)
    assert report.to_json()["untried"] == named({ADDRESS: "1"}).untried
    assert f"  untried: reconnects ({report.untried['reconnects']})" in str(report).splitlines()


def test_credentials_that_were_not_given_are_not_tried(installed, tmp_path, monkeypatch):
    with BrokerProcess(tmp_path / "open") as broker:
        monkeypatch.setenv(ADDRESS, str(broker.port))
        report = run("drawer", arguments=["-k", "opt_05 or opt_01"])
    assert outcomes(report.to_json()) == {
        "OPT-01": ("passed", ""),
        "OPT-05": ("skipped", "OPT-05: the drawer has no lock"),
    }


def test_nothing_is_left_untried_on_a_server_that_the_suite_starts_itself(
    installed, broker, tmp_path
):
    own = f"""def case(self):
        from penstock.conformance.server import Server
        penstock_server = Server(address="{broker.port}", options={{"password": "open sesame"}})
"""
    suite = SUITE.replace("def case(self, penstock_server):\n", own)
    suite = suite.replace('server = "the port of a drawer, such as 4711"', "")
    (tmp_path / "drawer_suite.py").write_text(suite)
    report = run("drawer", arguments=["-k", "que_05 or que_14"])
    assert outcomes(report.to_json()).keys() == {"QUE-05", "QUE-14"}
    for outcome, reason in outcomes(report.to_json()).values():
        assert (outcome, "leaves reconnects untried" in reason) == ("error", True)


def test_no_server_is_one_sentence_that_says_how_to_name_one(installed):
    done = CliRunner().invoke(main, ["conformance", "drawer"])
    assert done.exit_code == SetupError.exit_code
    assert "the suite of drawer runs against a server of yours, and none is named" in done.output
    assert "the port of a drawer, such as 4711" in done.output
    assert "--server" in done.output
    assert "PENSTOCK_SERVER" in done.output
    assert len(done.output.splitlines()) <= 4


def test_an_option_is_a_name_and_a_value():
    done = CliRunner().invoke(main, ["conformance", "drawer", "--option", "password"])
    assert done.exit_code == 2
    assert "'password' is not NAME=VALUE" in done.output


def test_a_server_travels_in_the_environment():
    said = naming("tcp://here:1", {"user": "me"}, True)
    server = named(said)
    assert (server.address, server.options, server.proof) == (
        "tcp://here:1",
        {"user": "me"},
        "emulator",
    )
    assert named({}) is None
    assert naming(None, {}, False) == {}


def test_options_of_a_server_that_cannot_be_read_are_told():
    with pytest.raises(SetupError, match="PENSTOCK_SERVER_OPTIONS"):
        named({ADDRESS: "x", "PENSTOCK_SERVER_OPTIONS": "user=me"})


def test_an_option_that_neither_source_nor_sink_takes_is_refused():
    assert Server(address="1", options={"password": "x"}).options_of(connector) == (
        {"password": "x"},
        {"password": "x"},
    )
    with pytest.raises(OptionError, match="pasword"):
        Server(address="1", options={"pasword": "x"}).options_of(connector)


def test_a_server_prints_neither_its_address_nor_its_options():
    shown = repr(Server(address="amqp://me:secret@here/", options={"password": "hidden"}))
    assert "secret" not in shown
    assert "hidden" not in shown
