"""Clauses about what a connector raises."""

from __future__ import annotations

import time
import traceback

from penstock.conformance.clauses import clause
from penstock.conformance.killed import secrets
from penstock.conformance.rig import Rig
from penstock.contracts.errors import PenstockError


class ErrorClauses:
    """ERR: who, expected, got, next step; and whether it is worth a retry."""

    @clause("ERR-01", "a server that is away is an ephemeral error, soon", needs="reconnects")
    def test_err_01_away(self, rig: Rig) -> None:
        """With the server killed, `check()` of source and sink raises a `PenstockError` within 30
        seconds; it is marked ephemeral, so that the core retries with backoff and a limit, and
        its text (the whole chain) repeats no secret. With the server back `check()` passes."""
        server = rig.case.server
        assert server is not None, "reconnects is declared: the case must give server="
        sides = [s for s in ("source", "sink") if getattr(rig.connector, s) is not None]
        hidden = secrets(rig)
        server.kill()
        try:
            for side in sides:
                began = time.monotonic()
                error = _raised(getattr(rig, side)())
                took = time.monotonic() - began
                assert error is not None, f"{side}: check() passes without a server"
                assert took < 30, f"{side}: check() took {took:.0f} s"
                assert error.ephemeral, f"{side}: {type(error).__name__} is not ephemeral"
                text = "".join(traceback.format_exception(error))
                assert not [s for s in hidden if s in text], f"{side}: the error shows a secret"
        finally:
            server.start()
        for side in sides:
            getattr(rig, side)().check()


def _raised(value: object) -> PenstockError | None:
    try:
        value.check()  # type: ignore[attr-defined]
    except PenstockError as error:
        return error
    return None
