"""Segments: messages on disk, each file written once, checksummed, and durable before its ack.

    8 bytes   magic
    records   4 bytes length, 4 bytes CRC-32, an Arrow stream

A segment gets its final name only after an fsync, and its name is unique: a retry, a second
attempt or a zombie writes another file and erases nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import time
import uuid
import zlib
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import frozen

from penstock.contracts.durable import sync_folder
from penstock.contracts.envelope import ENVELOPE
from penstock.contracts.errors import ReadError
from penstock.contracts.queue import Lease

MAGIC = b"PENSEG1\n"
_RECORD = struct.Struct("<II")
_SUFFIX = ".seg"

SPOOLED = pa.schema(
    [
        *ENVELOPE,
        pa.field("redelivered", pa.bool_()),
        pa.field("id_hash", pa.uint64()),
        pa.field("digest", pa.uint64()),
    ]
)
"""An envelope, and what de-duplication needs to know of it."""


@frozen
class Segment:
    """A segment by its name: `<order>-<receiver>-<unique>-<rows>.seg`; sorts by arrival."""

    name: str

    @property
    def rows(self) -> int:
        """How many rows it was written with."""
        return int(self.name.removesuffix(_SUFFIX).rpartition("-")[2])

    @property
    def order(self) -> int:
        """Where it stands among the others."""
        return int(self.name.partition("-")[0])


@frozen
class Read:
    """What a segment holds.

    Attributes:
        rows: Its records up to the first bad one, in the schema they were written with.
        torn: Whether a record failed its checksum; the rest of the file is then void.
    """

    rows: pa.Table
    torn: bool


def segments(folder: Path) -> list[Segment]:
    """The segments in a folder, in order of arrival."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [Segment(name) for name in sorted(names) if name.endswith(_SUFFIX)]


def spooled(lease: Lease) -> pa.RecordBatch:
    """A lease's rows as they go to disk."""
    rows = lease.rows
    ids = rows.column("id")
    nameless = ids.is_null().to_numpy(zero_copy_only=False)
    return pa.RecordBatch.from_arrays(
        [
            *rows.columns,
            lease.redelivered,
            pa.array(_hashes(ids), pa.uint64(), mask=nameless),
            pa.array(_hashes(rows.column("value")), pa.uint64()),
        ],
        schema=SPOOLED,
    )


def _hashes(texts: pa.Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Of each text or bytes; null is as empty."""
    each = texts.cast(pa.binary()).fill_null(b"").to_pylist()
    return np.frombuffer(b"".join([blake2b(x, digest_size=8).digest() for x in each]), dtype="<u8")


class SegmentWriter:
    """Writes segments of one receiver.

    Args:
        drafts: where unfinished files are; same filesystem as `inbox`.
        inbox: where finished ones are found by the planner.
        receiver: its number, for the name.
    """

    def __init__(self, drafts: Path, inbox: Path, receiver: int) -> None:
        self._drafts = drafts
        self._inbox = inbox
        self._receiver = receiver
        # A clock that was set back must not put new segments before old ones.
        self._last = max((s.order for s in segments(inbox)), default=0)

    def write(self, batches: Sequence[pa.RecordBatch]) -> Segment:
        """Write rows as one segment; when this returns they are durable.

        Raises:
            ReadError: the disk is full or broken. Nothing is in the inbox then.
        """
        rows = sum(batch.num_rows for batch in batches)
        self._last = max(self._last + 1, time.time_ns())
        unique = uuid.uuid4().hex[:12]
        made = Segment(f"{self._last:020d}-{self._receiver:03d}-{unique}-{rows}{_SUFFIX}")
        draft = self._drafts / made.name
        try:
            with open(draft, "xb") as file:
                file.write(MAGIC)
                for batch in batches:
                    record = _record(batch)
                    file.write(_RECORD.pack(len(record), zlib.crc32(record)))
                    file.write(record)
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, self._inbox / made.name)
            sync_folder(self._inbox)
        except OSError as error:
            with contextlib.suppress(OSError):  # the folder itself may be what is broken
                draft.unlink()
            raise _unwritable(error, self._inbox) from error
        return made


def _record(rows: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def _unwritable(error: OSError, folder: Path) -> ReadError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return ReadError(
        f"the spool cannot be written: {error.strerror}; nothing of it was acknowledged",
        got=str(folder),
        fix="free space on that disk; the messages are still in the broker"
        if full
        else "mend the folder; the messages are still in the broker",
    )


def read(path: Path) -> Read:
    """All sound records of a segment.

    Raises:
        FileNotFoundError: it is gone.
    """
    found: list[pa.RecordBatch] = []
    torn = False
    for record in _records(path.read_bytes()):
        if record is None:
            torn = True
            break
        found.extend(pa.ipc.open_stream(record))
    schema = found[0].schema if found else SPOOLED
    return Read(pa.Table.from_batches(found, schema=schema), torn)


def _records(data: bytes) -> Iterator[memoryview | None]:
    if not data.startswith(MAGIC):
        yield None
        return
    view, at = memoryview(data), len(MAGIC)
    while at < len(data):
        if len(data) - at < _RECORD.size:
            yield None
            return
        length, checksum = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        record = view[at : at + length]
        if len(record) < length or zlib.crc32(record) != checksum:
            yield None
            return
        yield record
        at += length
