"""The command line as a user types it; nothing here starts Spark."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock import registry
from penstock.cli import main
from penstock.contracts import Connector
from penstock.registry import Listed

SOUND = """
name: orders
source: {generator: {rows: 10}}
steps:
  - decode: {coder: json, schema: "id long, total double"}
  - where: total > 100
sink: {stdout: {}}
"""


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture
def pipeline(tmp_path):
    def write(text=SOUND):
        path = tmp_path / "pipeline.yaml"
        path.write_text(text)
        return path

    return write


def test_connectors_are_listed_with_distribution_and_abilities(run):
    listed = {each["name"]: each for each in json.loads(run("connectors", "--json").stdout)}
    assert listed["generator"]["distribution"] == "penstock"
    assert "source" in listed["generator"]["can"]
    assert listed["stdout"]["broken"] is None
    assert "generator" in run("connectors").stdout


def test_a_connectors_options_are_shown_as_a_table_and_as_json(run):
    shown = run("connectors", "show", "generator").stdout
    assert "rows" in shown
    assert "How many records" in shown
    schema = json.loads(run("connectors", "show", "generator", "--json").stdout)
    assert "rows" in schema["options"]["source"]["properties"]


@pytest.mark.parametrize(
    ("kind", "name", "option"), [("coders", "csv", "header"), ("transforms", "xml-filter", "where")]
)
def test_coders_and_transforms_are_listed_and_their_options_shown(run, kind, name, option):
    listed = {each["name"]: each for each in json.loads(run(kind, "--json").stdout)}
    assert listed[name]["broken"] is None
    assert name in run(kind).stdout
    assert option in run(kind, "show", name).stdout
    shown = json.loads(run(kind, "show", name, "--json").stdout)
    assert option in shown["options"]["properties"]
    assert run(kind, "show", f"{name}x").exit_code == 2


def test_sparks_own_formats_are_listed_as_built_in_and_shown(run):
    listed = {each["name"]: each for each in json.loads(run("connectors", "--json").stdout)}
    assert listed["spark"]["built_in"]
    assert listed["spark"]["can"] == ["source", "sink"]
    assert not listed["generator"]["built_in"]
    assert list(listed) == sorted(listed)
    shown = run("connectors", "show", "spark").stdout
    assert "built in: any format" in shown
    assert "as `frame.write.format` takes it" in " ".join(shown.split())
    schema = json.loads(run("connectors", "show", "spark", "--json").stdout)
    assert "stream" in schema["options"]["source"]["properties"]
    assert "mode" in schema["options"]["sink"]["properties"]


def test_an_unknown_connector_exits_2_with_a_suggestion(run):
    done = run("connectors", "show", "generatr")
    assert done.exit_code == 2
    assert "did you mean 'generator'?" in done.stderr


def test_an_error_as_json_has_its_parts(run):
    done = run("connectors", "show", "generatr", "--json")
    assert json.loads(done.stdout)["error"] == "UnknownNameError"
    assert done.exit_code == 2


def test_a_mistyped_command_gets_a_suggestion(run):
    done = run("conectors")
    assert done.exit_code == 2
    assert "Did you mean 'connectors'?" in done.stderr


def test_a_sound_file_is_said_to_be_sound(run, pipeline):
    done = run("validate", pipeline())
    assert done.exit_code == 0
    assert "is sound" in done.stdout
    said = json.loads(run("validate", pipeline(), "--json").stdout)
    assert said["guarantee"] == "at-least-once"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SOUND.replace("rows:", "rws:"), ["the option rws is unknown", "did you mean 'rows'?"]),
        (SOUND.replace("rows: 10", "rows: many"), ["wrong type", "whole number"]),
        (SOUND.replace("generator:", "generatr:"), ["did you mean 'generator'?"]),
        (SOUND.replace("generator:", "carrier-pigeon:"), ["pip install penstock-carrier-pigeon"]),
        (SOUND.replace("where:", "wher:"), ["did you mean 'where'?"]),
        ("name: x\nsource: {generator: [}\n", ["pipeline.yaml:2:"]),
        ("just text", ["pipeline.yaml"]),
        ("", ["pipeline.yaml"]),
    ],
)
@pytest.mark.parametrize("command", ["validate", "explain", "run"])
def test_a_bad_file_exits_2_and_says_where(run, pipeline, command, text, words):
    done = run(command, pipeline(text))
    assert done.exit_code == 2, done.output
    assert all(each in done.stderr for each in words), done.stderr
    assert "Traceback" not in done.output


def test_a_missing_file_exits_2_and_names_it(run, tmp_path):
    done = run("validate", tmp_path / "absent.yaml")
    assert done.exit_code == 2
    assert "absent.yaml" in done.stderr


def test_a_file_without_permission_exits_2_and_names_it(run, pipeline):
    path = pipeline()
    assert run("validate", path).exit_code == 0
    path.chmod(0)
    root = os.geteuid() == 0
    if root:  # root may read everything
        os.seteuid(65534)
    try:
        done = run("validate", path)
    finally:
        if root:
            os.seteuid(0)
    assert done.exit_code == 2
    assert "pipeline.yaml" in done.stderr


@pytest.mark.parametrize("form", ["text", "mermaid", "json"])
def test_a_plan_is_drawn_in_each_form(run, pipeline, form):
    done = run("explain", pipeline(), "--format", form)
    assert done.exit_code == 0
    assert "generator" in done.stdout
    if form == "json":
        assert json.loads(done.stdout)


def test_the_schema_of_files_knows_what_is_installed(run):
    assert "generator" in run("schema").stdout


def test_doctor_finds_this_machine_fit(run, pipeline):
    done = run("doctor", pipeline(), "--json")
    found = {each["what"]: each for each in json.loads(done.stdout)}
    assert done.exit_code == 0, done.output
    assert found["Java"]["ok"]
    assert found["source generator"]["ok"]


def test_doctor_imports_what_a_listing_leaves_alone(run, monkeypatch):
    broken = Connector(name="pump", sink="no_such_module:Sink")
    entry = registry.entry("connectors", "stdout")
    monkeypatch.setattr(
        registry, "listing", lambda kind: [Listed(entry, broken)] if kind == "connectors" else []
    )
    done = run("doctor")
    assert done.exit_code == 3
    assert "No module named 'no_such_module'" in done.stdout


def test_doctor_without_java_exits_3_and_says_what_to_install(run, monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("doctor")
    assert done.exit_code == 3
    assert "install a JDK 17" in done.stdout


def test_a_java_too_old_is_one_sentence(tmp_path, pipeline):
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    # In a process of its own: one that has a Spark session already needs no other Java.
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "run", pipeline()],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "Spark needs Java 17 or newer, Java 11 was found" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_a_pipeline_may_name_functions_of_the_folder_it_is_run_from(tmp_path):
    (tmp_path / "checks.py").write_text("def passed(record: dict) -> dict:\n    return record\n")
    document = "name: p\nsource: {generator: {rows: 1}}\nsteps: [{map: 'checks:passed'}]\n"
    (tmp_path / "pipeline.yaml").write_text(f"{document}sink: {{stdout: {{}}}}\n")
    # The installed command: unlike `python -m`, Python gives it no way to the folder.
    command = [str(Path(sys.executable).with_name("penstock")), "validate", "pipeline.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_listing_fits_a_narrow_terminal(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    done = subprocess.run(
        [sys.executable, "-c", _IN_TERMINAL], capture_output=True, text=True, check=True
    )
    assert max(len(line) for line in done.stdout.splitlines()) <= 60
    assert "generator" in done.stdout


_IN_TERMINAL = """
import os, pty, sys
def child():
    os.environ.update(COLUMNS="60", TERM="dumb")
    os.execv(sys.executable, [sys.executable, "-m", "penstock", "connectors"])
pid, fd = pty.fork()
if pid == 0:
    child()
out = b""
while True:
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    if not data:
        break
    out += data
print(out.decode().replace("\\r", ""))
"""


def cpu_seconds(code):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def test_listing_connectors_takes_under_half_a_second_of_cpu_and_imports_neither_spark_nor_arrow():
    listing = (
        "import sys; from penstock.cli import main\n"
        "try:\n    main(['connectors'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'pyspark', 'pyarrow', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    # The best of three: a busy machine adds to the CPU seconds of what it runs.
    assert min(cpu_seconds(listing) for _ in range(3)) < 0.5
