"""How the bytes of a file become rows."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from attrs import frozen

from penstock.contracts.coder import Decoded
from penstock.contracts.envelope import (
    ENVELOPE,
    ERROR,
    HEADERS,
    PEN_FIELD,
    TIMESTAMP,
    pen,
    stamps,
)
from penstock_localfile.engine.compression import Expanding
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.lines import NEWLINE
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.parts import Cutting, Range
from penstock_localfile.engine.storage import Storage


@frozen
class Format(ABC):
    """One format with its settings. A picklable value.

    Attributes:
        expanding: How files are compressed.
        longest: The largest record, or file that is read as one, in bytes.
        learned: What `learn` said on the driver, for the workers.
    """

    expanding: Expanding
    longest: int
    learned: str = ""

    by_lines = False
    """Whether records are lines, so that a file that is not compressed can be read in ranges."""
    ends = NEWLINE
    """Where lines end."""
    by_ranges = False
    """Whether byte ranges can be read for another reason."""
    walks = False
    """Whether finding such a range takes a walk through the file from its beginning."""
    single = False
    """Whether a file that is no zip is exactly one row."""

    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return ENVELOPE

    def learns(self) -> bool:
        """Whether the schema must be learned from a file."""
        return False

    def learn(self, storage: Storage, file: Logged) -> str:
        """What one file teaches about the schema, as text."""
        raise TypeError(f"{type(self).__name__} learns nothing")

    @abstractmethod
    def read(self, storage: Storage, piece: Range) -> Iterator[pa.RecordBatch]:
        """The rows of a range, in the file's order."""

    def divides(self, path: bytes) -> bool:
        """Whether a file of this name may be read in byte ranges."""
        return (self.by_lines or self.by_ranges) and not self.expanding.kind(path)

    def cutting(self) -> Cutting:
        """How the planner may cut."""
        return Cutting(self.divides, lines=self.by_lines, single=self.single, ends=self.ends)


def part_name(file: Logged, inside: str = "") -> str:
    """The `part` of a stamp: the path below the root, with the version from the second on."""
    name = shown(file.entry.path)
    return (name if file.version == 1 else f"{name}\\v{file.version}") + inside


def envelope(
    storage: Storage,
    file: Logged,
    values: pa.Array,
    positions: pa.Array,
    *,
    inside: str = "",
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
            stamps(storage.origin, part_name(file, inside), positions),
        ],
        schema=ENVELOPE,
    )


def typed(schema: pa.Schema) -> pa.Schema:
    """The schema of typed rows of these columns."""
    return pa.schema([*(f for f in schema if f.name != "_pen"), PEN_FIELD])


def typed_rows(
    storage: Storage, file: Logged, rows: pa.RecordBatch, positions: pa.Array, inside: str = ""
) -> pa.RecordBatch:
    """Typed rows of one file with their stamps."""
    stamp = stamps(storage.origin, part_name(file, inside), positions)
    meta = pen(rows.num_rows, stamp=stamp)
    return pa.RecordBatch.from_arrays([*rows.columns, meta], schema=typed(rows.schema))


def decoded_rows(
    storage: Storage,
    file: Logged,
    done: Decoded,
    values: pa.Array,
    positions: pa.Array,
    inside: str = "",
) -> pa.RecordBatch:
    """What a coder made of one file's records: a bad one keeps its place, null but for `_pen`.

    Its bytes and the reason are in `_pen.error`, from where a pipeline makes a dead letter.
    """
    if done.origin is None:
        return typed_rows(storage, file, done.rows, positions, inside)
    good = typed_rows(storage, file, done.rows, positions.take(done.origin), inside)
    if not done.errors:
        return good
    bad_at = pa.array([e.row for e in done.errors], pa.int32())
    said = [
        {"node": "localfile", "kind": e.kind, "message": e.message, "original": o, "attempt": 1}
        for e, o in zip(done.errors, values.take(bad_at).to_pylist(), strict=True)
    ]
    stamp = stamps(storage.origin, part_name(file, inside), positions.take(bad_at))
    meta = pen(len(said), stamp=stamp, error=pa.array(said, ERROR))
    nulls = [pa.nulls(len(said), f.type) for f in done.rows.schema]
    bad = pa.RecordBatch.from_arrays([*nulls, meta], schema=good.schema)
    both = pa.Table.from_batches([good, bad]).combine_chunks()
    order = np.argsort(np.concatenate([done.origin, bad_at]), kind="stable")
    return both.take(pa.array(order)).combine_chunks().to_batches()[0]


def to_text(schema: pa.Schema) -> str:
    """A schema as text that `from_text` reads."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def from_text(text: str) -> pa.Schema:
    """What `to_text` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
