"""How a twin is made: a reference connector with one thing wrong."""

import sys

from attrs import evolve, frozen

from penstock.conformance.reference.folder import connector as folder
from penstock.conformance.reference.sockets import connector as sockets
from penstock.contracts import Connector


@frozen
class Twin:
    """A connector that breaks a clause, and what its case needs besides."""

    clause: str
    connector: Connector
    base: str
    case: dict


TWINS: list[Twin] = []


def broken(*clauses, side="source", base="folder", case=None, source=None, sink=None, **changed):
    """Class decorator: put the class into a copy of the reference connector, for each clause."""

    def register(cls):
        whole = folder if base == "folder" else sockets
        name = f"twin-{cls.__name__.lower()}"
        made = evolve(whole, name=name, **{side: cls}, **changed)
        if source is not None:
            made = evolve(made, source=source)
        if sink is not None:
            made = evolve(made, sink=sink)
        # The suite finds a connector that is not installed by looking where it is defined.
        setattr(sys.modules[cls.__module__], f"connector_{cls.__name__}", made)
        for clause in clauses:
            TWINS.append(Twin(clause, made, base, dict(case or {})))
        return cls

    return register
