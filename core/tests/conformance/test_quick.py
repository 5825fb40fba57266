"""The Spark of the suites starts quickly, and is the installed one all the same."""

import os
from pathlib import Path

import pyspark
import pytest

from penstock.conformance import quick


def where(spark):
    """Where a Python process of Spark has found pyspark."""

    def ask(_):
        import pyspark

        yield pyspark.__file__

    [found] = spark.sparkContext.parallelize([0], 1).mapPartitions(ask).collect()
    return Path(found)


@pytest.mark.spark
def test_python_processes_import_the_installed_files_and_compile_no_archive(spark):
    found = where(spark)
    assert found.is_file(), f"{found} is in an archive"
    assert found.resolve() == Path(pyspark.__file__).resolve()


def test_what_is_set_for_spark_is_gone_when_it_has_started(monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    before = dict(os.environ)
    with quick.starting():
        assert (Path(os.environ["SPARK_HOME"]) / "bin" / "spark-submit").exists()
    assert dict(os.environ) == before


def test_a_spark_that_the_user_names_is_taken(monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with quick.starting():
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"
