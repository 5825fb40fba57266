"""How the bytes of a file become rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pyarrow as pa
from attrs import frozen

from penstock.contracts.envelope import ENVELOPE, HEADERS, TIMESTAMP, stamps
from penstock.contracts.errors import ReadError
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.lines import read_lines
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.opening import open_logged
from penstock_localfile.engine.parts import Range
from penstock_localfile.engine.planner import Cutting
from penstock_localfile.engine.storage import Storage


class Format(ABC):
    """One format with its settings. A picklable value."""

    divisible: bool = False
    """Whether a file may be read in byte ranges."""

    cutting: Cutting = Cutting()

    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return ENVELOPE

    @abstractmethod
    def read(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        """The rows of a range, in the file's order."""


def part_name(file: Logged) -> str:
    """The `part` of a stamp: the path below the root, with the version from the second on."""
    name = shown(file.entry.path)
    return name if file.version == 1 else f"{name}\\v{file.version}"


@frozen
class LinesFormat(Format):
    """One row per line; `position` is the line's byte offset.

    Attributes:
        longest: A longer line is an error.
    """

    longest: int
    divisible = True
    cutting = Cutting(lines=True)

    def read(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        """The lines that begin in the range."""
        if piece.start == piece.end:
            return
        file = open_logged(storage, piece.file, max(piece.start - 1, 0))
        try:
            runs = read_lines(file, piece.start, piece.end, longest=self.longest)
            for run in runs:
                yield envelope(storage, piece.file, run.values, run.starts)
        finally:
            file.close()


@frozen
class WholeFormat(Format):
    """One row per file; the key is its path, headers hold its size and modification time.

    Attributes:
        longest: A larger file is an error.
    """

    longest: int
    cutting = Cutting(single=True)

    def read(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        """The file as one row."""
        entry = piece.file.entry
        if entry.size > self.longest:
            raise ReadError(
                f"a file is larger than {self.longest} bytes",
                got=f"{shown(entry.path)}, {entry.size} bytes",
                fix="raise max_record_bytes, or read it with format=lines",
            )
        file = open_logged(storage, piece.file)
        try:
            pieces = []
            while data := file.read(8 << 20):
                pieces.append(data)
        finally:
            file.close()
        value = pa.array([b"".join(pieces)], pa.binary())
        facts = [
            {"key": "path", "value": entry.path},
            {"key": "size", "value": str(entry.size).encode()},
            {"key": "modified", "value": str(entry.modified).encode()},
        ]
        yield envelope(
            storage,
            piece.file,
            value,
            pa.array([0], pa.int64()),
            key=pa.array([entry.path], pa.binary()),
            headers=pa.array([facts], HEADERS),
        )


def envelope(
    storage: Storage,
    file: Logged,
    values: pa.Array,
    positions: pa.Array,
    *,
    key: pa.Array | None = None,
    headers: pa.Array | None = None,
) -> pa.RecordBatch:
    """Rows of one file; its modification time is their event time."""
    count = len(values)
    moment = pa.scalar(file.entry.modified // 1000, pa.int64()).cast(TIMESTAMP)
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(count, pa.binary()) if key is None else key,
            values,
            pa.nulls(count, HEADERS) if headers is None else headers,
            pa.repeat(moment, count) if file.entry.modified else pa.nulls(count, TIMESTAMP),
            pa.nulls(count, pa.string()),
            stamps(storage.origin, part_name(file), positions),
        ],
        schema=ENVELOPE,
    )
