"""What a connector's author subclasses: every clause arrives by inheritance."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar

import pytest

from penstock import registry
from penstock.conformance.case import Case
from penstock.conformance.clauses import clause_of, clauses_of
from penstock.conformance.errors import ErrorClauses
from penstock.conformance.gate import bad_waivers, gate
from penstock.conformance.options import OptionClauses
from penstock.conformance.plugin import PROOF, REASON, UNTRIED
from penstock.conformance.queued import QueuedClauses
from penstock.conformance.queues import QueueClauses
from penstock.conformance.rig import Rig
from penstock.conformance.server import named
from penstock.conformance.shapes import ShapeClauses
from penstock.conformance.sinks import SinkClauses
from penstock.conformance.sources import SourceClauses
from penstock.conformance.through_spark import SparkClauses
from penstock.conformance.typed import TypedClauses
from penstock.contracts import Connector


class ConnectorSuite(
    OptionClauses,
    ShapeClauses,
    SourceClauses,
    QueueClauses,
    SinkClauses,
    TypedClauses,
    SparkClauses,
    QueuedClauses,
    ErrorClauses,
):
    """Subclass it, name the connector, and give a fixture `case`.

        class TestFolder(ConnectorSuite):
            connector = "folder"

            @pytest.fixture
            def case(self, tmp_path):
                return Case(source={"path": tmp_path}, sink={"path": tmp_path})

    Attributes:
        connector: Its name as installed, or the `Connector` itself.
        waivers: Clauses it cannot keep, each with the reason; printed in every report.
        server: For a suite that runs against a server which its user names (the fixture
            `penstock_server`): what to name, with an example.
    """

    connector: ClassVar[str | Connector]
    waivers: ClassVar[Mapping[str, str]] = {}
    server: ClassVar[str] = ""

    @pytest.fixture
    def case(self) -> Case:
        raise AssertionError("give the suite a fixture `case` that returns a Case")

    @classmethod
    def found(cls) -> Connector:
        if isinstance(cls.connector, Connector):
            return cls.connector
        return registry.connector(cls.connector)

    @pytest.fixture(autouse=True)
    def _gate(self, request: pytest.FixtureRequest) -> None:
        clause = clause_of(request.function)
        if clause is None:
            return
        wrong = bad_waivers(self.waivers, {each.id for each in clauses_of(type(self))})
        assert not wrong, "; ".join(wrong)
        verdict = gate(self.found(), clause, self.waivers)
        if not verdict.applies:
            request.node.stash[REASON] = (verdict.waived, verdict.reason)
            pytest.skip(f"{clause.id}: {verdict.reason}")

    @pytest.fixture
    def rig(
        self,
        _gate: None,
        request: pytest.FixtureRequest,
        tmp_path_factory: pytest.TempPathFactory,
        penstock_seed: int,
    ) -> Rig:
        # Asked for late: a clause that does not apply must not cost a fresh place.
        case = request.getfixturevalue("case")
        assert isinstance(case, Case), f"the fixture `case` must return a Case, not {case!r}"
        request.node.stash[PROOF] = case.proof
        request.node.stash[UNTRIED] = dict(case.untried)
        assert not case.untried or named(os.environ), (
            f"the case leaves {', '.join(case.untried)} untried, and no server was named from "
            "outside: give the case what it lacks (server, wrong_credentials), or waive the clause"
        )
        clause = clause_of(request.function)
        why = case.untried.get((clause and clause.needs) or "")
        if clause is not None and why is not None:
            pytest.skip(f"{clause.id}: {why}")
        return Rig(self.found(), case, tmp_path_factory.mktemp("rig"), penstock_seed)
