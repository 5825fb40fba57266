"""The clauses a connector is held to: stable ids, one test each.

A clause *is* its test: the decorator gives it an id and a title, the test's docstring is its
paragraph in the docs. So catalogue, documentation and suite cannot drift apart.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from attrs import frozen

F = TypeVar("F", bound=Callable[..., Any])

SHAPES = {
    "OPT": "any",
    "SHP": "any",
    "SRC": "replayable",
    "QUE": "queue",
    "SNK": "sink",
    "ERR": "any",
    "COD": "coder",
    "TRF": "transform",
}
"""Which shape the clauses of a prefix are about."""


@frozen
class Clause:
    """One promise.

    Attributes:
        id: Stable for ever; never reused.
        title: A few words.
        needs: The capability that must be declared for it to apply; None: it always applies.
        tries: Capabilities it holds a connector to where they are declared; it applies without.
        sides: Which of the shapes `replayable`, `queue`, `sink` it is about; empty for all.
        text: One paragraph: what must hold, and how it is tried.
    """

    id: str
    title: str
    needs: str | None = None
    sides: tuple[str, ...] = ()
    text: str = ""
    tries: tuple[str, ...] = ()

    @property
    def shape(self) -> str:
        return SHAPES[self.id[:3]]


def clause(
    id: str,
    title: str,
    *,
    needs: str | None = None,
    sides: tuple[str, ...] = (),
    tries: tuple[str, ...] = (),
) -> Callable[[F], F]:
    """Mark a test as the test of a clause; its docstring is the clause's paragraph."""
    if not re.fullmatch(r"[A-Z]{3}-\d\d", id) or id[:3] not in SHAPES:
        raise ValueError(f"{id!r} is no id of a clause")
    if not sides and SHAPES[id[:3]] in ("replayable", "queue", "sink"):
        sides = (SHAPES[id[:3]],)

    def mark(test: F) -> F:
        text = " ".join((inspect.getdoc(test) or "").split())
        if not text:
            raise ValueError(f"the test of {id} needs a docstring: it is the clause's paragraph")
        test.__clause__ = Clause(id, title, needs, sides, text, tries)  # type: ignore[attr-defined]
        return test

    return mark


def clause_of(test: object) -> Clause | None:
    """The clause a test belongs to, if it is one."""
    found: Clause | None = getattr(test, "__clause__", None)
    return found


def clauses_of(suite: type) -> list[Clause]:
    """The clauses of a suite, by id.

    Raises:
        ValueError: two tests claim one id.
    """
    found: dict[str, Clause] = {}
    for name, test in inspect.getmembers(suite, inspect.isfunction):
        each = clause_of(test)
        if each is None:
            continue
        if each.id in found:
            raise ValueError(f"two tests claim {each.id}; one of them is {name}")
        found[each.id] = each
    return [found[id] for id in sorted(found)]


def catalogue() -> list[Clause]:
    """Every clause of every suite, in the order of the docs."""
    from penstock.conformance.coders import CoderSuite
    from penstock.conformance.suite import ConnectorSuite
    from penstock.conformance.transforms import TransformSuite

    order = list(SHAPES)
    both = [*clauses_of(ConnectorSuite), *clauses_of(CoderSuite), *clauses_of(TransformSuite)]
    unique = {each.id: each for each in both}
    return sorted(unique.values(), key=lambda each: (order.index(each.id[:3]), each.id))
