"""One task's share of a batch: rows into files under temporary names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
from attrs import define, frozen

from penstock.contracts import Batch, Receipt, Rejected, Writer
from penstock.contracts.errors import WriteError
from penstock_localfile.engine.encodings import Counting, Encoding, Sheet, packing
from penstock_localfile.engine.names import BadName, safe, shown, unshown
from penstock_localfile.engine.packed import ENDINGS, Packed
from penstock_localfile.engine.publishing import Published, Publisher, short_id
from penstock_localfile.engine.routing import Layout, filled
from penstock_localfile.engine.storage import Writable


@frozen
class Style:
    """How a sink writes: what its options say.

    Attributes:
        encoding: The format.
        layout: The folders.
        template: The name of a file in its folder, without its suffix.
        packed: How the stream is compressed.
        roll: A file of about this many bytes is complete; 0: no bound.
    """

    encoding: Encoding
    layout: Layout
    template: str
    packed: Packed = "none"
    roll: int = 0

    def final(self, folder: str, batch: Batch, partition: int, roll: int) -> bytes:
        """The final path of a file."""
        name = filled(
            self.template,
            batch=batch.number,
            partition=partition,
            roll=roll,
            id=short_id(batch),
            query=batch.ctx.query,
            node=batch.ctx.node,
        )
        ending = self.encoding.suffix + (ENDINGS[self.packed] if self.encoding.packs else "")
        return safe(f"{folder}{name}{ending}".encode())


@define
class _Open:
    temporary: bytes
    final: bytes
    file: Writable
    counting: Counting
    stream: Any
    sheet: Sheet
    rows: int = 0


class ShareWriter(Writer):
    """Writes one task's rows to a file for each folder, and further ones as they fill up."""

    def __init__(
        self, publisher: Publisher, style: Style, batch: Batch, partition: int, attempt: int
    ) -> None:
        self._publisher = publisher
        self._style = style
        self._batch = batch
        self._partition = partition
        self._temporary: Callable[[], bytes] = lambda: publisher.temporary(
            batch, partition, attempt
        )
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._rolls: dict[str, int] = {}
        self._done: list[Published] = []
        self._rejected: list[Rejected] = []
        self._rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Encode and write; what is refused comes back whole, as it was given."""
        own = rows.select([name for name in rows.schema.names if name != "_pen"])
        for folder, share, chosen in self._style.layout.folders(own):
            try:
                file = self._at(folder, share.schema)
            except BadName as error:
                given = rows if chosen is None else rows.filter(chosen)
                self._rejected.append(Rejected(given, [str(error)] * given.num_rows))
                continue
            errors = file.sheet.write(share)
            if errors:
                given = rows if chosen is None else rows.filter(chosen)
                bad = given.take(pa.array([error.row for error in errors], pa.int32()))
                self._rejected.append(Rejected(bad, [error.message for error in errors]))
            file.rows += share.num_rows - len(errors)
            self._rows += share.num_rows - len(errors)
            if self._style.roll and file.counting.size >= self._style.roll:
                self._complete(folder)

    def close(self) -> Receipt:
        """Make the files durable under temporary names; a task without rows leaves none."""
        for folder in list(self._open):
            self._complete(folder)
        return Receipt(
            rows=self._rows,
            payload={"files": [file.as_json() for file in self._done]},
            rejected=tuple(self._rejected),
        )

    def abort(self) -> None:
        """Remove what was written."""
        for file in self._open.values():
            with suppress(WriteError):  # a full disk fails the close too; the file goes anyway
                file.file.close()
            self._publisher.remove(file.temporary)
        for done in self._done:
            self._publisher.remove(unshown(done.temporary))

    def _at(self, folder: str, schema: pa.Schema) -> _Open:
        found = self._open.get(folder)
        if found is not None:
            self._open.move_to_end(folder)
            return found
        if len(self._open) >= self._publisher.storage.open_at_once:
            self._complete(next(iter(self._open)))
        style, roll = self._style, self._rolls.get(folder, 0)
        final = style.final(folder, self._batch, self._partition, roll)
        self._publisher.storage.admit(final)
        self._rolls[folder] = roll + 1
        temporary = self._temporary()
        file = self._publisher.storage.create(temporary)
        counting = Counting(file)
        stream = packing(counting, style.packed if style.encoding.packs else "none")
        made = _Open(temporary, final, file, counting, stream, style.encoding.open(stream, schema))
        self._open[folder] = made
        return made

    def _complete(self, folder: str) -> None:
        file = self._open[folder]
        file.sheet.close()
        file.stream.close()
        file.file.close()
        del self._open[folder]
        if file.rows:
            self._done.append(
                Published(shown(file.temporary), shown(file.final), file.rows, file.counting.size)
            )
        else:  # every row was refused
            self._publisher.storage.remove(file.temporary)
