"""File for a file: every row is a whole input file, and becomes one whole output file.

A file that cannot be converted goes to an error folder as it came, with a report beside it, in
the same batch and by the same manifest as its good neighbours.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import string
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa
from attrs import field, frozen

from penstock.contracts import Batch, Receipt, Rejected, Writer
from penstock.contracts.envelope import column
from penstock.contracts.errors import OptionError, SchemaError, WriteError
from penstock_localfile.engine.names import BadName, safe, shown, suffixed, unshown
from penstock_localfile.engine.publishing import HOME, Published, Publisher
from penstock_localfile.engine.routing import filled
from penstock_localfile.engine.storage import read_whole

FACTS = ("path", "folder", "name", "stem", "ext")
Convert = Callable[[bytes], bytes | Iterable[bytes]]


@lru_cache(maxsize=32)
def function(named: str) -> Convert:
    """The function that `module:name` stands for.

    Raises:
        OptionError: there is none.
    """
    module, _, name = named.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(
            f"the function to convert files with cannot be loaded: {error}",
            expected="module:function, importable where Spark's workers run",
            got=named,
        ) from error
    if not callable(found):
        raise OptionError("this is no function", expected="module:function", got=named)
    return found


@frozen
class Conversion:
    """What becomes of one file.

    Attributes:
        convert: From bytes to bytes; empty: the value as it is.
        template: The output's path, from the input's.
        errors: The folder for files that fail; empty: they become rejected rows.
        keep_times: Give the output the input's modification time.
        keep_metadata: Give the output what the input's system kept beside it.
    """

    convert: str = ""
    template: str = "{path}"
    errors: str = "errors"
    keep_times: bool = False
    keep_metadata: bool = False

    def accepts(self, schema: pa.Schema) -> pa.Schema:
        """A key that names the file, its content, and its time."""
        names = set(schema.names)
        if "value" not in names or not names & {"key", "_pen"}:
            raise SchemaError(
                "file for a file needs a key that names the file, and its content as value",
                expected="rows of a source with format=whole",
                got=", ".join(schema.names),
            )
        wanted = ("key", "value", "headers", "event_time", "_pen")
        return pa.schema([f for f in schema if f.name in wanted])

    def target(self, key: bytes) -> bytes:
        """The output's path.

        Raises:
            BadName: it would leave the root.
        """
        folder, _, name = key.rpartition(b"/")
        stem, ext = os.path.splitext(name)
        facts = {
            "path": key,
            "folder": folder + b"/" if folder else b"",
            "name": name,
            "stem": stem,
            "ext": ext,
        }
        decoded = {n: v.decode("utf-8", "surrogateescape") for n, v in facts.items()}
        return safe(filled(self.template, **decoded).encode("utf-8", "surrogateescape"))

    def run(self, data: bytes) -> list[bytes]:
        """The pieces of the output.

        Raises:
            TypeError: the function gives something else than bytes.
        """
        if not self.convert:
            return [data]
        made = function(self.convert)(data)
        pieces = [made] if isinstance(made, bytes | bytearray | memoryview | str) else list(made)
        for piece in pieces:
            if not isinstance(piece, bytes | bytearray | memoryview):
                raise TypeError(
                    f"{self.convert} must give bytes, or pieces of bytes, not {type(piece).__name__}"
                )
        return [bytes(piece) for piece in pieces]

    @property
    def forgets(self) -> bool:
        """Whether two inputs may have one output name: the template leaves out part of theirs."""
        used = {name for _, name, _, _ in string.Formatter().parse(self.template)}
        whole = "name" in used or {"stem", "ext"} <= used
        return not ("path" in used or ("folder" in used and whole))


class BadFile(WriteError):
    """A file that its source could not expand, or hold."""


@frozen
class _Kept:
    """What an output has of its input besides the content."""

    modified: int = 0
    facts: dict[str, str] = field(factory=dict)


class FilesWriter(Writer):
    """Writes each row to a file of its own."""

    def __init__(
        self,
        publisher: Publisher,
        conversion: Conversion,
        batch: Batch,
        partition: int,
        attempt: int,
    ) -> None:
        self._publisher = publisher
        self._conversion = conversion
        self._batch = batch
        self._partition = partition
        self._attempt = attempt
        self._made: list[Published] = []
        self._finals: set[bytes] = set()
        self._rejected: list[Rejected] = []
        self._rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Convert and write, file by file."""
        keys = column(rows, "key").to_pylist()
        times = column(rows, "event_time")
        moments = [None] * len(keys) if times is None else times.cast(pa.int64()).to_pylist()
        headers = self._headers(rows)
        for at, (key, value, moment) in enumerate(
            zip(keys, rows.column("value"), moments, strict=True)
        ):
            modified = (moment or 0) * 1000 if self._conversion.keep_times else 0
            facts = {n: v for n, v in headers[at].items() if n == "mode" or n.startswith("meta.")}
            kept = _Kept(modified, facts if self._conversion.keep_metadata else {})
            try:
                self._one(key, value.as_py(), kept, headers[at].get("error"))
            except BadName as error:
                self._rejected.append(Rejected(rows.slice(at, 1), [str(error)]))

    def _headers(self, rows: pa.RecordBatch) -> list[dict[str, str]]:
        headers = column(rows, "headers")
        if headers is None:
            return [{}] * rows.num_rows
        return [
            {h["key"]: (h["value"] or b"").decode("utf-8", "replace") for h in some or ()}
            for some in headers.to_pylist()
        ]

    def _one(self, key: bytes | None, data: bytes | None, kept: _Kept, wrong: str | None) -> None:
        if key is None or (data is None and wrong is None):
            raise BadName("a row without a key or a value names no file")
        target = self._free(self._conversion.target(key))
        owner = self._owned(target, key) if self._conversion.forgets else None
        if data is None or wrong is not None:
            self._fail(key, data, kept, BadFile(wrong or ""))
            return
        try:
            pieces = self._conversion.run(data)
        except OptionError:
            raise
        except Exception as error:
            self._fail(key, data, kept, error)
            return
        self._put(target, pieces, kept)
        if owner is not None:
            self._put(owner, [key], _Kept())
        self._rows += 1

    def _free(self, final: bytes) -> bytes:
        """A name that a file can get, and that no other row of this task asks for."""
        self._publisher.storage.admit(safe(final))
        if final in self._finals:
            raise BadName(
                "another row of this batch names the same file",
                got=shown(final),
                fix="let file_name tell inputs apart: {path}, or {folder} and {name}",
            )
        return final

    def _owned(self, target: bytes, key: bytes) -> bytes:
        """Where it is kept of which input an output is; only that one may replace it."""
        storage = self._publisher.storage
        digest = hashlib.blake2b(target, digest_size=16).hexdigest()
        owner = HOME + f"/owners/{digest[:2]}/{digest}".encode()
        if not self._batch.overwrite and storage.stat(target) and storage.stat(owner):
            first = read_whole(storage, owner)
            if first != key:
                raise BadName(
                    "the file of another input has this name",
                    expected=f"{shown(target)} from {shown(first)}",
                    got=shown(key),
                    fix="let file_name tell inputs apart: {path}, or {folder} and {name}",
                )
        return owner

    def _fail(self, key: bytes, data: bytes | None, kept: _Kept, error: Exception) -> None:
        if not self._conversion.errors:
            raise error
        place = self._free(self._conversion.errors.encode() + b"/" + key)
        beside = self._free(suffixed(place, b".error.json"))
        report = {
            "file": shown(key),
            "kind": type(error).__name__,
            "message": str(error),
            "traceback": "".join(traceback.format_exception(error)),
            "batch": self._batch.key,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        if data is not None:
            self._put(place, [data], kept)
        self._put(beside, [json.dumps(report, indent=1).encode()], _Kept())
        self._rows += 1

    def _put(self, final: bytes, pieces: list[bytes], kept: _Kept) -> None:
        temporary = self._publisher.temporary(self._batch, self._partition, self._attempt)
        size = sum(map(len, pieces))
        # A new version of an input replaces the output of the old one.
        made = Published(shown(temporary), shown(final), 1, size, kept.modified, replace=True)
        self._made.append(made)
        self._finals.add(final)
        out = self._publisher.storage.create(temporary, kept.facts)
        try:
            for piece in pieces:
                out.write(piece)
        finally:
            out.close()

    def close(self) -> Receipt:
        """All files are durable under temporary names."""
        payload: dict[str, Any] = {"files": [file.as_json() for file in self._made]}
        return Receipt(rows=self._rows, payload=payload, rejected=tuple(self._rejected))

    def abort(self) -> None:
        """Remove what was written."""
        for made in self._made:
            self._publisher.remove(unshown(made.temporary))
