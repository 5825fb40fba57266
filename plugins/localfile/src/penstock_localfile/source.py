"""Files of a folder as a source."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa

from penstock.contracts import Context, Part, ReplayableSource, connector, option
from penstock.contracts.native import ReadsInSpark, SparkRead
from penstock_localfile.engine.batches import joined
from penstock_localfile.engine.discovery import Rules
from penstock_localfile.engine.local import LocalStorage
from penstock_localfile.engine.names import divide, literal, matcher
from penstock_localfile.engine.options import FileOptions
from penstock_localfile.engine.planner import FilePlanner


@connector
class LocalFiles(FileOptions, ReplayableSource, ReadsInSpark):
    """Reads the files of a folder that every node sees, each once, and new ones as they come."""

    path: str = option(
        doc="A file, a folder, or a glob (`*`, `**`, `?`, `[a-z]`, `{one,two}`).",
        example="/data/in/*.log",
    )

    def settle(self) -> None:
        """Refuse a glob that cannot be read."""
        super().settle()
        matcher(divide(self.path)[1])

    def schema(self) -> pa.Schema:
        """The envelope, or the columns of the format and `_pen`."""
        return self.file_format(self.learned(*self._place())).schema()

    def planner(self, ctx: Context) -> FilePlanner:
        """Lists the folder, and remembers in the state folder what it has seen."""
        storage, rules = self._place()
        return self.file_planner(storage, rules, ctx.state)

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The records of some files, or of a range of one."""
        storage, _ = self._place()
        form = self.file_format(part.learned)
        yield from joined(rows for piece in part.ranges for rows in form.read(storage, piece))

    def reads_in_spark(self, *, stamps: bool) -> bool:
        """Parquet, and lines or text without their stamps."""
        return self.format == "parquet" or (self.format in ("lines", "text") and not stamps)

    def in_spark(self, parts: Sequence[Part], *, stamps: bool) -> SparkRead | None:
        """The files of some parts, if Spark's reader gives the same rows of them."""
        from penstock_localfile.engine.native import in_spark

        storage, _ = self._place()
        found = in_spark(storage, self.file_format(parts[0].learned), parts)
        return found and attrs.evolve(found, split=self.split_bytes, tasks=self.parts)

    def check(self) -> None:
        """See that the folder is there and may be listed."""
        storage, _ = self._place()
        next(iter(storage.walk(recursive=False)), None)

    def _place(self) -> tuple[LocalStorage, Rules]:
        """The root folder, and which files below it are meant."""
        path = self.path.removeprefix("file://")
        # A file whose own name is `*.csv` must not hide those that the glob means.
        if not {"*", "?"} & set(path) and os.path.isfile(path):
            root, name = os.path.split(path)
            storage = LocalStorage(root or ".")
            return storage, self.rules(storage, literal(name), named=True)
        root, pattern = divide(path)
        storage = LocalStorage(root)
        return storage, self.rules(storage, pattern)
