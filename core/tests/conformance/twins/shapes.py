"""Connectors with broken options, or that are not what they say."""

from pathlib import Path
from typing import Any

from penstock.conformance.reference.folder_source import FolderSource
from penstock.contracts import connector as configured
from penstock.contracts import option
from twins.making import broken


@broken("OPT-01")
@configured
class SaysNothing(FolderSource):
    """Reads a folder."""

    speed: int = option(default=1, doc="x")


@broken("OPT-02")
@configured
class FailsSomewhereInside(FolderSource):
    """Reads a folder."""

    path: str | None = option(default=None, doc="Folder to read.")

    def check(self):
        Path(self.path).is_dir()


@broken("OPT-03")
@configured
class TakesEverything(FolderSource):
    """Reads a folder."""

    rest: dict = option(prefix="", doc="Whatever else is given.")


@broken("OPT-04", case={"contradictory": {"only": "a", "without": "a"}})
@configured
class TakesContradictions(FolderSource):
    """Reads a folder."""

    only: str | None = option(default=None, doc="Only this split.")
    without: str | None = option(default=None, doc="Not this split.")

    def settle(self):
        pass


@broken("OPT-07", case={"more": {"marks": [1, 2]}})
@configured
class ChangesOnTheWay(FolderSource):
    """Reads a folder."""

    marks: Any = option(default=None, doc="Anything at all.")


@broken("SHP-01", summary="")
class HasNoSummary(FolderSource):
    pass


@broken("SHP-03")
class RemembersItsClient(FolderSource):
    def check(self):
        object.__setattr__(self, "client", "connected")


@broken("SHP-03")
class RemembersItsPlanner(FolderSource):
    def planner(self, ctx):
        object.__setattr__(self, "last", "planned")
        return super().planner(ctx)
