"""A folder as a sink: whole files, exactly once per batch."""

from __future__ import annotations

import os

from penstock.contracts import connector, option
from penstock.contracts.errors import OptionError, WriteError
from penstock_localfile.engine.filesink import FileSink
from penstock_localfile.engine.local import LocalStorage
from penstock_localfile.engine.names import divide


@connector
class LocalFileSink(FileSink):
    """Writes files into a folder that every node sees; a replayed batch changes nothing."""

    path: str = option(doc="The folder to write into; it is made if missing.", example="/data/out")

    def settle(self) -> None:
        """A target is a folder, not a glob."""
        super().settle()
        if divide(self.path)[1]:
            raise OptionError(
                "the path to write into is a glob", expected="a folder", got=self.path
            )

    def target(self) -> LocalStorage:
        """The folder."""
        return LocalStorage(self.path.removeprefix("file://"))

    def check(self) -> None:
        """See that the folder, or the nearest one above it that exists, may be written."""
        place = os.path.abspath(self.target().root)
        while not os.path.exists(place):
            place = os.path.dirname(place)
        if not os.path.isdir(place) or not os.access(place, os.W_OK | os.X_OK):
            raise WriteError(
                "the folder cannot be written",
                got=place,
                fix="let the user who runs Spark write there, or choose another folder",
            )
