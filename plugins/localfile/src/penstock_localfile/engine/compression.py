"""Compressed files as streams that cannot outgrow a bound."""

from __future__ import annotations

import contextlib
import io
import tempfile
import zipfile
from collections.abc import Iterator
from typing import IO, Any, Literal, cast

import pyarrow as pa
from attrs import frozen

from penstock.contracts.errors import ReadError
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.names import matcher, shown
from penstock_localfile.engine.opening import open_logged
from penstock_localfile.engine.storage import Readable, Storage

Compression = Literal["auto", "none", "gzip", "zstd", "bzip2", "zip"]
_SUFFIXES = {b".gz": "gzip", b".zst": "zstd", b".bz2": "bzip2", b".zip": "zip"}
_CODECS = {"gzip": "gzip", "zstd": "zstd", "bzip2": "bz2"}
_ALWAYS = 64 << 20


@frozen
class Expanding:
    """How files are compressed, and how far they may grow.

    Attributes:
        how: `auto` goes by the suffix of the name.
        ratio: Content may be so many times as large as the file (64 MiB are always allowed).
        members: A glob over the names in a zip file; empty: all of them.
    """

    how: Compression = "auto"
    ratio: float = 200.0
    members: str = ""

    def kind(self, path: bytes) -> str:
        """How a file of this name is compressed; empty if it is not."""
        if self.how == "auto":
            return next((kind for end, kind in _SUFFIXES.items() if path.endswith(end)), "")
        return "" if self.how == "none" else self.how

    @contextlib.contextmanager
    def opened(self, storage: Storage, file: Logged, start: int = 0) -> Iterator[Readable]:
        """The content of a file that is no zip, from an offset on if it is not compressed."""
        kind = self.kind(file.entry.path)
        raw = open_logged(storage, file, 0 if kind else start)
        try:
            yield Expanded(raw, kind, file, self._cap(file)) if kind else raw
        finally:
            raw.close()

    def documents(self, storage: Storage, file: Logged) -> Iterator[tuple[str, Readable]]:
        """The contents in a file, each with what its name adds to the file's: zip members."""
        if self.kind(file.entry.path) != "zip":
            with self.opened(storage, file) as content:
                yield "", content
            return
        with seekable(storage, file) as raw, _zip(raw, file) as archive:
            left = self._cap(file)
            wanted = matcher(self.members) if self.members else None
            for info in archive.infolist():
                name = info.filename.encode("utf-8", "surrogateescape")
                if info.is_dir() or (wanted is not None and not wanted.match(name)):
                    continue
                with _member(archive, info, file) as member:
                    bounded = Bounded(member, file, left)
                    yield "!" + shown(name), bounded
                    left -= bounded.taken

    def _cap(self, file: Logged) -> int:
        return max(_ALWAYS, int(file.entry.size * self.ratio))


class Bounded:
    """A stream that fails rather than give more than its cap."""

    def __init__(self, stream: Any, file: Logged, cap: int) -> None:
        self._stream = stream
        self._file = file
        self._cap = cap
        self.taken = 0

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; empty at the end."""
        wanted = 8 << 20 if size < 0 else size
        try:
            data: bytes = self._stream.read(wanted)
        except (OSError, EOFError, zipfile.BadZipFile, pa.ArrowInvalid) as error:
            raise ReadError(
                f"a compressed file cannot be read: {error}", got=shown(self._file.entry.path)
            ) from error
        except Exception as error:  # zlib.error and lzma.LZMAError share no other root
            if type(error).__module__ not in ("zlib", "_lzma", "lzma"):
                raise
            raise ReadError(
                f"a compressed file is broken: {error}", got=shown(self._file.entry.path)
            ) from error
        self.taken += len(data)
        if self.taken > self._cap:
            raise ReadError(
                "a compressed file grows beyond its bound",
                expected=f"at most {self._cap} bytes",
                got=f"{shown(self._file.entry.path)}, {self._file.entry.size} bytes compressed",
                fix="raise max_expansion if the file is to be trusted",
            )
        return data

    def close(self) -> None:
        """Free it."""
        self._stream.close()


class Expanded(Bounded):
    """A file compressed as one stream."""

    def __init__(self, raw: Readable, kind: str, file: Logged, cap: int) -> None:
        stream = pa.CompressedInputStream(pa.PythonFile(_RawFile(raw), "r"), _CODECS[kind])
        super().__init__(stream, file, cap)


class _RawFile(io.RawIOBase):
    """A Readable as Python's own file object."""

    def __init__(self, inner: Readable) -> None:
        self._inner = inner

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(size)

    def readinto(self, buffer: Any) -> int:
        data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def as_file(inner: Readable) -> io.BufferedReader:
    """A Readable for libraries that want a Python file."""
    return io.BufferedReader(_RawFile(inner), 1 << 20)


@contextlib.contextmanager
def seekable(storage: Storage, file: Logged) -> Iterator[IO[bytes]]:
    """A discovered file that can be read back and forth: in place, or a temporary copy."""
    raw = open_logged(storage, file)
    try:
        if storage.seeks:
            yield cast("IO[bytes]", raw.inner)
            return
        with tempfile.TemporaryFile(prefix="penstock-") as copy:
            while data := raw.read(8 << 20):
                copy.write(data)
            copy.seek(0)
            yield copy
    finally:
        raw.close()


@contextlib.contextmanager
def _zip(raw: IO[bytes], file: Logged) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(raw)
    except zipfile.BadZipFile as error:
        raise ReadError(f"a zip file is broken: {error}", got=shown(file.entry.path)) from error
    with archive:
        yield archive


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: Logged) -> IO[bytes]:
    try:
        return archive.open(info)
    except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        raise ReadError(
            f"a member of a zip file cannot be read: {error}",
            got=f"{info.filename!r} in {shown(file.entry.path)}",
        ) from error
