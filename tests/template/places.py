"""Where the template and what it is made from lie; which clauses start Spark."""

import inspect
from pathlib import Path

from penstock.conformance import ConnectorSuite
from penstock.conformance.killed import KilledClauses

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "cookiecutter-connector"
PACKAGE = TEMPLATE / "{{cookiecutter.__distribution}}" / "src" / "{{cookiecutter.__package}}"
REFERENCE = ROOT / "core" / "src" / "penstock" / "conformance" / "reference"


def with_spark() -> str:
    """The clauses that start Spark, for pytest's -k; the rest is call by call."""
    found = [
        "_".join(name.split("_")[:3])
        for name, test in inspect.getmembers(ConnectorSuite, inspect.isfunction)
        if name.startswith("test_")
        and ("penstock_spark" in inspect.signature(test).parameters or hasattr(KilledClauses, name))
    ]
    return " or ".join(sorted(found))
