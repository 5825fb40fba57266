"""Other systems as a sink: whole files, exactly once per batch."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.contracts import Batch, Promise, Receipt, Sink, Writer, connector
from penstock.contracts.errors import OptionError
from penstock_localfile.engine.publishing import HOME, Publisher
from penstock_localfile.engine.sinkoptions import FileSinkOptions
from penstock_remotefile.place import RemotePlace


@connector
class RemoteFileSink(RemotePlace, FileSinkOptions, Sink):
    """Writes files by SFTP or fsspec; a replayed batch changes nothing."""

    def settle(self) -> None:
        """A target is a folder that can be written."""
        RemotePlace.settle(self)
        FileSinkOptions.settle(self)
        if not self.url:
            raise OptionError("the option url is missing", expected="url: the folder to write to")
        if self.scheme in ("http", "https"):
            raise OptionError("files cannot be written by HTTP", got=self.url)
        if self.located()[1]:
            raise OptionError("the place to write to is a glob", got=self.url)

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
        """See that the server answers and takes the credentials."""
        self.storage()[0].folders(HOME)

    def _publisher(self) -> Publisher:
        return Publisher(self.storage()[0], self.sweep_age)
