"""What every sink of files does: whole files, exactly once per batch, wherever they go."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import pyarrow as pa

from penstock.contracts import Batch, Promise, Receipt, Sink, Writer, connector
from penstock_localfile.engine.publishing import Publisher
from penstock_localfile.engine.sinkoptions import FileSinkOptions
from penstock_localfile.engine.storage import Storage


@connector
class FileSink(FileSinkOptions, Sink):
    """A sink of files; a connector says where."""

    @abstractmethod
    def target(self) -> Storage:
        """The folder to write into."""

    def promise(self) -> Promise:
        """A batch again changes nothing; each file appears whole."""
        return Promise(replay="idempotent", atomic="task")

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """The columns that are written, and `_pen`, which a refused row keeps."""
        taken, at = self.taken(schema), schema.get_field_index("_pen")
        return taken if at < 0 or "_pen" in taken.names else taken.append(schema.field(at))

    def refuses(self) -> bool:
        """Where a value may not fit the format, or name no folder."""
        return self.format not in ("csv", "parquet") or bool(self.partition_by)

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

    def _publisher(self) -> Publisher:
        return Publisher(self.target(), self.sweep_age)
