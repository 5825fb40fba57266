"""Defaults below the user's own settings, and secrets kept out of plans."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from penstock.spark import session as sessions


@pytest.mark.parametrize(
    ("env", "key", "set_"),
    [
        (
            {"PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=true pyspark-shell"},
            "spark.ui.enabled",
            True,
        ),
        ({"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, "spark.master", True),
        ({}, "spark.master", False),
    ],
)
def test_what_spark_submit_sets_is_left_alone(monkeypatch, env, key, set_):
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert sessions.set_elsewhere(key) is set_


def test_what_spark_defaults_set_is_left_alone(monkeypatch, tmp_path):
    (tmp_path / "spark-defaults.conf").write_text("# mine\nspark.sql.shuffle.partitions   64\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert sessions.set_elsewhere("spark.sql.shuffle.partitions")
    assert not sessions.set_elsewhere("spark.ui.enabled")


SUBMITTED = """
import json
import penstock as pen

conf = pen.session().sparkContext.getConf()
asked = ("spark.master", "spark.ui.enabled", "spark.sql.session.timeZone")
print(json.dumps([conf.get(key) for key in asked]))
"""


@pytest.mark.spark
def test_a_program_that_was_submitted_runs_where_it_was_submitted_to(tmp_path):
    (tmp_path / "program.py").write_text(SUBMITTED)
    home = Path(pyspark.__file__).parent
    submit = [str(home / "bin" / "spark-submit"), "--master", "local[3]"]
    submit += ["--conf", "spark.ui.enabled=true", "--conf", "spark.ui.port=0", "program.py"]
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)}
    done = subprocess.run(
        submit, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == ["local[3]", "true", "UTC"]


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "sasl.jaas.config",
        "passphrase",
        "private_key",
        "ssl.key.password",
        "ssl.key.pem",
        "connection_string",
        "credentials",
        "uri",
        "url",
        "api_key",
        "access.key",
        "token",
    ],
)
def test_redaction_hides_every_name_that_holds_a_secret(name):
    for key in ("spark.redaction.regex", "spark.sql.redaction.options.regex"):
        assert re.search(sessions.DEFAULTS[key], f"kafka.{name}"), key


@pytest.mark.spark
def test_a_secret_option_does_not_show_in_a_plan(spark):
    frame = (
        spark.read.format("penstock.kafka")
        .options(servers="127.0.0.1:1", topics="t")
        .option("kafka.sasl.password", "canary")
        .schema("value binary")
        .load()
    )
    assert "canary" not in frame._jdf.queryExecution().toString()


@pytest.mark.spark
def test_a_batch_goes_to_python_without_being_measured_row_by_row_unless_the_user_set_limits(spark):
    size, rows = sessions.ARROW
    shared = spark.conf.get(rows)
    other = spark.newSession()
    other.conf.set(size, "67108864b")
    other.conf.set(rows, "77")
    sessions.settled(other.conf)
    assert other.conf.get(size) == sessions.ARROW[size]
    assert other.conf.get(rows) == "77"
    assert spark.conf.get(rows) == shared
