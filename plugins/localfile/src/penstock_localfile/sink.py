"""A folder as a sink: whole files, exactly once per batch."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa

from penstock.contracts import Batch, Promise, Receipt, Sink, Writer, connector, option
from penstock.contracts.errors import OptionError, WriteError
from penstock_localfile.engine.local import LocalStorage
from penstock_localfile.engine.names import divide
from penstock_localfile.engine.publishing import Publisher
from penstock_localfile.engine.sinkoptions import FileSinkOptions


@connector
class LocalFileSink(FileSinkOptions, Sink):
    """Writes files into a folder that every node sees; a replayed batch changes nothing."""

    path: str = option(doc="The folder to write into; it is made if missing.", example="/data/out")

    def settle(self) -> None:
        """A target is a folder, not a glob."""
        super().settle()
        if divide(self.path)[1]:
            raise OptionError(
                "the path to write into is a glob", expected="a folder", got=self.path
            )

    def promise(self) -> Promise:
        """A batch again changes nothing; each file appears whole."""
        return Promise(replay="idempotent", atomic="task")

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """The columns that are written."""
        return self.taken(schema)

    def done(self, batch: Batch) -> bool:
        """Whether the batch is published."""
        return self._publisher().done(batch)

    def begin(self, batch: Batch) -> bool:
        """Finish what is decided, sweep what is dead."""
        return self._publisher().begin(batch)

    def open(self, batch: Batch, partition: int, attempt: int, schema: pa.Schema) -> Writer:
        """A writer to temporary names of this attempt's own."""
        return self.writer(self._publisher(), batch, partition, attempt)

    def finish(self, batch: Batch, receipts: Sequence[Receipt]) -> None:
        """Write the manifest, then give the files their names."""
        self._publisher().finish(batch, receipts)

    def discard(self, batch: Batch, receipts: Sequence[Receipt]) -> None:
        """Remove temporary files."""
        self._publisher().discard(batch, receipts)

    def check(self) -> None:
        """See that the folder, or the nearest one above it that exists, may be written."""
        place = os.path.abspath(self._root())
        while not os.path.exists(place):
            place = os.path.dirname(place)
        if not os.path.isdir(place) or not os.access(place, os.W_OK | os.X_OK):
            raise WriteError(
                "the folder cannot be written",
                got=place,
                fix="let the user who runs Spark write there, or choose another folder",
            )

    def _root(self) -> str:
        return self.path.removeprefix("file://")

    def _publisher(self) -> Publisher:
        return Publisher(LocalStorage(self._root()), self.sweep_age)
