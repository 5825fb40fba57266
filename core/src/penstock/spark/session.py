"""A Spark session as a user would want it; never against what the user has set."""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

from penstock.contracts.options import HIDDEN
from penstock.spark.java import require_java

_REDACT = "(?i)secret|password|token|access[.]?key"
_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

_LOG = os.path.join(os.path.dirname(__file__), "log4j2.properties")

ARROW = {
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}
"""How rows go to Python. To keep a limit in bytes Spark measures a batch anew for each of its rows,
which takes most of the time of a job; so many rows of the largest records that brokers take by
default fit without it."""

_SPARKS_OWN = {
    "spark.sql.execution.arrow.maxBytesPerBatch": "67108864b",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
"""Spark's defaults: a user who wants others has set them."""

DEFAULTS: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.redaction.regex": f"{_REDACT}|{HIDDEN}",
    "spark.sql.redaction.options.regex": f"(?i)url|{_REDACT[4:]}|{HIDDEN}",
    "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
    **ARROW,
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{_LOG}",
}
"""What we set unless the user did. The file manager writes checkpoints without forking a
process per rename; see `Sessions` in the docs for what it gives up."""


def session(master: str | None = None, name: str = "penstock", **settings: Any) -> SparkSession:
    """The active session, else a new one with our defaults below the user's settings.

    Raises:
        SetupError: there is no Java, or one too old.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None or not set_elsewhere("spark.master"):
        builder = builder.master(master or "local[*]")
    for key, value in DEFAULTS.items():
        if not set_elsewhere(key):
            builder = builder.config(key, value)
    for key, value in settings.items():
        builder = builder.config(key, str(value))
    threading.Thread(target=_import_meanwhile, daemon=True).start()
    return builder.getOrCreate()


def settled(conf: RuntimeConfig) -> None:
    """What every batch runs with; the session of a batch is its own."""
    # Adaptive execution may change the number of tasks between a batch and its replay.
    conf.set("spark.sql.adaptive.enabled", "false")
    for key, value in ARROW.items():
        if conf.get(key) == _SPARKS_OWN[key]:
            conf.set(key, value)


def _import_meanwhile() -> None:
    """Import what Spark's Python side will ask for next, while Java starts."""
    for module in ("pyarrow", "pyspark.testing.utils"):
        try:
            importlib.import_module(module)
        except Exception:  # whoever needs it will say what is wrong
            return


def set_elsewhere(key: str) -> bool:
    """Whether spark-submit, spark-defaults.conf or the environment has set it."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Under spark-submit Java runs already, and knows all that was set.
        SparkContext._ensure_initialized()
        return bool(SparkConf().contains(key))
    submit = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if key in submit or (key == "spark.master" and "--master" in submit):
        return True
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None and "SPARK_HOME" in os.environ:
        folder = os.path.join(os.environ["SPARK_HOME"], "conf")
    if folder is None:
        return False
    try:
        with open(os.path.join(folder, "spark-defaults.conf"), encoding="utf-8") as file:
            return any(re.match(rf"\s*{re.escape(key)}[\s=]", line) for line in file)
    except FileNotFoundError:
        return False
