"""Lines and whole files: bytes as they are."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from attrs import evolve, frozen

from penstock.contracts.envelope import HEADERS
from penstock.contracts.errors import DataLossError, EphemeralReadError, ReadError
from penstock_localfile.engine.formats.base import Format, envelope
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.lines import lines_of, read_blocks
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.parts import Range
from penstock_localfile.engine.storage import Readable, Storage

_FAR = 1 << 62


@frozen
class LinesFormat(Format):
    """One row per line; `position` is the line's byte offset in the (expanded) content."""

    by_lines = True

    def read(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        """The lines that begin in the range."""
        for inside, data, at in self.runs(storage, piece):
            run = lines_of(data, at)
            yield envelope(storage, piece.file, run.values, run.starts, inside=inside)

    def runs(self, storage: Storage, piece: Range) -> Iterator[tuple[str, bytes, int]]:
        """Blocks of a range's lines, with what the name of a zip's member adds to the file's."""
        if not self.divides(piece.file.entry.path):
            for inside, content in self.expanding.documents(storage, piece.file):
                for data, at in read_blocks(content, 0, _FAR, longest=self.longest):
                    yield inside, data, at
        elif piece.start < piece.end:
            with self.expanding.opened(storage, piece.file, max(piece.start - 1, 0)) as content:
                ends = (piece.start, piece.end)
                for data, at in read_blocks(content, *ends, longest=self.longest):
                    yield "", data, at


@frozen
class WholeFormat(Format):
    """One row per file or zip member; the key is its path, headers hold size and time.

    Attributes:
        metadata: Headers hold what the system keeps beside the file, too.
        passes: A file that cannot be expanded is passed on as it came, the reason in a header.
    """

    metadata: bool = False
    passes: bool = False
    single = True

    def read(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        """The file as one row."""
        contents = self.expanding.documents(storage, piece.file)
        while True:
            try:
                inside, content = next(contents, (None, None))
                if inside is None or content is None:
                    return
                value = whole(content, piece.file, self.longest)
            except ReadError as error:
                lost = isinstance(error, DataLossError | EphemeralReadError | TooLarge)
                if lost or not self.passes:
                    raise
                yield self._row(storage, piece.file, self._raw(storage, piece.file), "", error)
                return
            yield self._row(storage, piece.file, value, inside)

    def _raw(self, storage: Storage, file: Logged) -> bytes:
        """A file that cannot be expanded, as it is."""
        with evolve(self.expanding, how="none").opened(storage, file) as content:
            return whole(content, file, self.longest)

    def _row(
        self,
        storage: Storage,
        file: Logged,
        value: bytes,
        inside: str,
        error: ReadError | None = None,
    ) -> pa.RecordBatch:
        entry = file.entry
        facts = {"path": entry.path, "size": b"%d" % entry.size, "modified": b"%d" % entry.modified}
        if self.metadata:
            facts |= {name: text.encode() for name, text in storage.facts(entry.path).items()}
        if error is not None:
            facts["error"] = error.message.encode()
        return envelope(
            storage,
            file,
            pa.array([value], pa.binary()),
            pa.array([0], pa.int64()),
            inside=inside,
            key=pa.array([entry.path + inside.encode()], pa.binary()),
            headers=pa.array([[{"key": k, "value": v} for k, v in facts.items()]], HEADERS),
        )


class TooLarge(ReadError):
    """A file that is read as one is larger than its bound."""


def whole(content: Readable, file: Logged, longest: int) -> bytes:
    """All of a content that fits its bound."""
    pieces, size = [], 0
    while data := content.read(8 << 20):
        size += len(data)
        if size > longest:
            raise TooLarge(
                f"a file is larger than {longest} bytes",
                got=f"{shown(file.entry.path)}, {file.entry.size} bytes",
                fix="raise max_record_bytes, or read it with format=lines",
            )
        pieces.append(data)
    return b"".join(pieces)
