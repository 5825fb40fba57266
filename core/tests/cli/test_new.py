"""`penstock new`, at a terminal and without one."""

import json

import pytest
from click.testing import CliRunner

from penstock.cli import main

pytest.importorskip("cookiecutter")


def test_it_makes_a_project_without_asking(tmp_path):
    command = ["new", "rain", "--shape", "sink", "--folder", str(tmp_path), "--json"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["licence"] == "Apache-2.0"
    assert (tmp_path / "penstock-rain" / "src" / "penstock_rain" / "sink.py").is_file()


def test_it_says_what_is_missing_where_nobody_can_be_asked(tmp_path):
    done = CliRunner().invoke(main, ["new", "--folder", str(tmp_path)])
    assert done.exit_code == 2
    assert "NAME is needed" in done.output
    done = CliRunner().invoke(main, ["new", "rain", "--folder", str(tmp_path)])
    assert done.exit_code == 2
    assert "--shape is needed" in done.output


def test_a_bad_name_is_bad_configuration(tmp_path):
    command = ["new", "Rain Gauge", "--shape", "sink", "--folder", str(tmp_path)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert list(tmp_path.iterdir()) == []
