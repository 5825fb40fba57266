"""Which clauses apply to a connector: what it declares decides, never the test."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from penstock.conformance.clauses import Clause
from penstock.contracts import CAPABILITIES, Connector, QueueSource

# Which shapes a capability is about, each held to it by a clause; a sink's promise says `exactly-once` by itself.
ABOUT: dict[str, tuple[str, ...]] = {
    "splits": ("replayable",),
    "ordered-keys": ("replayable",),
    "event-time": ("replayable", "queue"),
    "lag": ("replayable", "queue"),
    "live": ("replayable", "queue"),
    "limits-bytes": ("replayable", "queue"),
    "reconnects": ("replayable", "queue", "sink"),
    "headers": ("replayable", "queue", "sink"),
    "keys": ("replayable", "queue", "sink"),
    "exactly-once": ("sink",),
    "typed": ("sink",),
}


@frozen
class Verdict:
    """Whether a clause applies; if not, why."""

    applies: bool
    reason: str = ""
    waived: bool = False


def sides(connector: Connector) -> set[str]:
    """The shapes a connector has."""
    found = set()
    if connector.source is not None:
        found.add("queue" if issubclass(connector.source, QueueSource) else "replayable")
    if connector.sink is not None:
        found.add("sink")
    return found


def gate(connector: Connector, clause: Clause, waivers: Mapping[str, str]) -> Verdict:
    """Whether a connector must keep a clause."""
    if clause.sides and not sides(connector) & set(clause.sides):
        return Verdict(False, f"{connector.name} is no {' or '.join(clause.sides)}")
    if clause.needs is not None and clause.needs not in connector.capabilities:
        what = CAPABILITIES[clause.needs]
        return Verdict(False, f"{connector.name} does not declare {clause.needs} ({what})")
    if clause.id in waivers:
        return Verdict(False, f"waived: {waivers[clause.id]}", waived=True)
    return Verdict(True)


def bad_waivers(waivers: Mapping[str, str], known: set[str]) -> list[str]:
    """What is wrong with a suite's waivers: an unknown id, no reason."""
    wrong = [f"{id} is no clause" for id in waivers if id not in known]
    return wrong + [f"{id} is waived without a reason" for id in waivers if not waivers[id].strip()]
