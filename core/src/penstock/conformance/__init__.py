"""What proves a connector: the counting oracle, the kill harness and the suite itself.

The names below are loaded on first use, so that the pytest plugin costs nothing where no suite
is run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.conformance.case import Breakable, Case
    from penstock.conformance.clauses import Clause, catalogue, clause
    from penstock.conformance.coders import CoderCase, CoderSuite
    from penstock.conformance.records import Record
    from penstock.conformance.server import Server
    from penstock.conformance.suite import ConnectorSuite
    from penstock.conformance.transforms import TransformCase, TransformSuite

_WHERE = {
    "Breakable": "case",
    "Case": "case",
    "Clause": "clauses",
    "CoderCase": "coders",
    "CoderSuite": "coders",
    "ConnectorSuite": "suite",
    "Record": "records",
    "Server": "server",
    "TransformCase": "transforms",
    "TransformSuite": "transforms",
    "catalogue": "clauses",
    "clause": "clauses",
}

__all__ = [
    "Breakable",
    "Case",
    "Clause",
    "CoderCase",
    "CoderSuite",
    "ConnectorSuite",
    "Record",
    "Server",
    "TransformCase",
    "TransformSuite",
    "catalogue",
    "clause",
]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"penstock.conformance has no {name}")
    return getattr(import_module(f"penstock.conformance.{_WHERE[name]}"), name)
