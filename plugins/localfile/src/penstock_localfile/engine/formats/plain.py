"""Lines and whole files: bytes as they are; and lines as text."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from attrs import evolve, frozen

from penstock.coders.text import TextCoder
from penstock.contracts.coder import Decoded
from penstock.contracts.envelope import HEADERS
from penstock.contracts.errors import DataLossError, EphemeralReadError, ReadError
from penstock_localfile.engine.formats.base import Format, decoded_rows, envelope, typed
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.lines import ANY_END, lines_of, read_blocks
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.parts import Range
from penstock_localfile.engine.storage import Readable, Storage

_FAR = 1 << 62
_TEXT = TextCoder()
BOM = b"\xef\xbb\xbf"


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
                for data, at in self._blocks(content, 0, _FAR):
                    yield inside, data, at
        elif piece.start < piece.end:
            with self.expanding.opened(storage, piece.file, max(piece.start - 1, 0)) as content:
                for data, at in self._blocks(content, piece.start, piece.end):
                    yield "", data, at

    def _blocks(self, content: Readable, start: int, end: int) -> Iterator[tuple[bytes, int]]:
        return read_blocks(content, start, end, longest=self.longest, ends=self.ends)


@frozen
class TextLinesFormat(LinesFormat):
    """One row per line, as text; a byte order mark at the beginning is no part of it.

    Attributes:
        trusted: Lines are taken for UTF-8 unseen; else one that is not is a bad record.
    """

    trusted: bool = False
    ends = ANY_END

    def schema(self) -> pa.Schema:
        """One column, and `_pen`."""
        return typed(_TEXT.schema())

    def read(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        """The lines that begin in the range."""
        for inside, data, at in self.runs(storage, piece):
            run = self.ends.lines(data, at)
            done = self._decoded(run.values)
            yield decoded_rows(storage, piece.file, done, run.values, run.starts, inside)

    def _blocks(self, content: Readable, start: int, end: int) -> Iterator[tuple[bytes, int]]:
        if start > 0:
            yield from super()._blocks(content, start, end)
            return
        begun = _Begun(content)
        skipped = len(BOM) if begun.drop(BOM) else 0
        for data, at in super()._blocks(begun, 0, max(end - skipped, 1)):
            yield data, at + skipped

    def _decoded(self, values: pa.Array) -> Decoded:
        if not self.trusted:
            return _TEXT.decode(values)
        text = pa.Array.from_buffers(pa.string(), len(values), values.buffers())
        return Decoded(pa.RecordBatch.from_arrays([text], schema=_TEXT.schema()))


class _Begun:
    """A content whose first bytes have been looked at."""

    def __init__(self, inner: Readable) -> None:
        self._inner = inner
        self._ahead = b""

    def drop(self, mark: bytes) -> bool:
        """Pass over a mark, if it is what comes next."""
        while len(self._ahead) < len(mark) and (more := self._inner.read(len(mark))):
            self._ahead += more
        found = self._ahead.startswith(mark)
        self._ahead = self._ahead.removeprefix(mark)
        return found

    def read(self, size: int = -1, /) -> bytes:
        """What was looked at, then the rest."""
        if not self._ahead:
            return self._inner.read(size)
        cut = len(self._ahead) if size < 0 else size
        data, self._ahead = self._ahead[:cut], self._ahead[cut:]
        return data

    def close(self) -> None:
        """Free it."""
        self._inner.close()


@frozen
class WholeFormat(Format):
    """One row per file or zip member; the key is its path, headers hold size and time.

    Attributes:
        metadata: Headers hold what the system keeps beside the file, too.
        passes: A file that cannot be expanded is passed on as it came, the reason in a header.
        stays: A file that is too large to be passed on is not lost: it is not deleted after it.
    """

    metadata: bool = False
    passes: bool = False
    stays: bool = True
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
                if isinstance(error, DataLossError | EphemeralReadError) or not self.passes:
                    raise
                yield self._row(storage, piece.file, self._raw(storage, piece.file), "", error)
                return
            yield self._row(storage, piece.file, value, inside)

    def _raw(self, storage: Storage, file: Logged) -> bytes | None:
        """A file that cannot be expanded, as it is; None: it is too large for that."""
        if file.entry.size > self.longest and self.stays:
            return None
        with evolve(self.expanding, how="none").opened(storage, file) as content:
            return whole(content, file, self.longest)

    def _row(
        self,
        storage: Storage,
        file: Logged,
        value: bytes | None,
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
                fix="raise max_record_bytes, read it with format=lines, or pass it on as a bad file: "
                "broken=pass, with another after than delete",
            )
        pieces.append(data)
    return b"".join(pieces)
