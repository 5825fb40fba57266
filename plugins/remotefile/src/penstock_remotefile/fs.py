"""Whatever fsspec knows as a storage: object stores, FTP, memory."""

from __future__ import annotations

import contextlib
import ftplib
import json
import logging
import posixpath
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import evolve, frozen

from penstock.contracts import Secret
from penstock.contracts.errors import (
    DataLossError,
    EphemeralReadError,
    EphemeralWriteError,
    OptionError,
    PenstockError,
    ReadError,
    SetupError,
    WriteError,
)
from penstock.contracts.points import reached
from penstock_localfile.engine.names import BadName, below, safe, shown
from penstock_localfile.engine.storage import Entry, Readable, Skip, Storage, Writable

log = logging.getLogger("penstock.remotefile")
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created", "modify")
_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "e_tag", "checksum")
_FLAT = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"}


@frozen
class FsspecStorage(Storage):
    """A folder, bucket or prefix. Object stores show a file only when it is complete."""

    url: str
    arguments: tuple[tuple[str, str | Secret], ...] = ()
    seeks = True

    @property
    def origin(self) -> str:
        """The URL."""
        return self.url

    def _fs(self) -> tuple[Any, str]:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise SetupError(
                f"the URL {self.url} needs fsspec: {error}",
                fix='pip install "penstock-remotefile[fsspec]"',
            ) from error
        given = {
            name: _argument(name, value.reveal() if isinstance(value, Secret) else value)
            for name, value in self.arguments
        }
        try:
            fs, root = url_to_fs(self.url, **given)
        except (ImportError, ValueError, TypeError) as error:
            raise SetupError(
                f"fsspec cannot reach the URL: {error}",
                got=self.url,
                fix="install the package that the message names",
            ) from error
        except ftplib.error_perm as error:  # FTP alone logs in before it is asked for anything
            raise ReadError(
                f"the server does not let us in: {error}",
                got=self.url,
                fix="see fs.username and fs.password",
            ) from error
        except (ftplib.Error, OSError) as error:
            raise EphemeralReadError(
                f"the server cannot be reached: {error}", got=self.url
            ) from error
        return fs, root.rstrip("/")

    def walk(
        self, below: bytes = b"", *, recursive: bool = True, skip: Skip | None = None
    ) -> Iterator[Entry]:
        """The files below a prefix."""
        fs, root = self._fs()
        top = root + "/" + below.decode() if below else root
        with self._reading(below):
            fs.invalidate_cache()
            try:
                found = fs.find(top, maxdepth=None if recursive else 1, detail=True)
            except FileNotFoundError:
                found = {}
            if not found and not below and not fs.exists(_must_be(fs, root)):
                raise ReadError("the folder or bucket to read is missing", got=self.url)
        for name, facts in found.items():
            path = name[len(root) :].removeprefix("/").encode()
            if not path or path.endswith(b"/") or facts.get("type", "file") != "file":
                continue
            try:
                safe(path)
            except BadName as error:
                log.warning("an object is left out, for it has no name of a file: %s", error.got)
                continue
            yield _entry(path, facts)

    def stat(self, path: bytes) -> Entry | None:
        """One file as it is now."""
        fs, root = self._fs()
        with self._reading(path):
            fs.invalidate_cache()
            try:
                facts = fs.info(self._at(root, path))
            except FileNotFoundError:
                return None
        return _entry(path, facts) if facts.get("type") == "file" else None

    def open(self, path: bytes, start: int = 0) -> Readable:
        """Read a file from an offset on."""
        fs, root = self._fs()
        with self._reading(path):
            try:
                file = fs.open(self._at(root, path), "rb")
            except FileNotFoundError:
                raise DataLossError("a file is no longer there", got=shown(path)) from None
            file.seek(start)
        return _Reading(file, self, path)

    def facts(self, path: bytes) -> dict[str, str]:
        """An object's own metadata, where the filesystem tells it."""
        fs, root = self._fs()
        if not hasattr(fs, "metadata"):
            return {}
        with self._reading(path):
            found = fs.metadata(self._at(root, path))
        return {f"meta.{name}": str(value) for name, value in found.items()}

    def create(self, path: bytes, facts: Mapping[str, str] | None = None) -> Writable:
        """Write a new file."""
        fs, root = self._fs()
        place = self._at(root, path)
        meta = {k[5:]: v for k, v in (facts or {}).items() if k.startswith("meta.")}
        more = {"Metadata": meta} if meta and hasattr(fs, "metadata") else {}
        with self._writing(path):
            self._make_folder(fs, place)
            return _Writing(fs.open(place, "wb", **more), self, path)

    def rename(self, old: bytes, new: bytes, *, to: Storage | None = None) -> None:
        """Move a file: object stores copy it whole, then remove the old name."""
        fs, root = self._fs()
        there = to._fs()[1] if isinstance(to, FsspecStorage) else root
        target = self._at(there, new)
        with self._writing(new):
            self._make_folder(fs, target)
            _move(fs, self._at(root, old), target)

    def beside(self, folder: str) -> FsspecStorage:
        """Another prefix."""
        if "://" in folder:
            return evolve(self, url=folder)
        return evolve(self, url=f"{self.url.rstrip('/')}/{folder}")

    def below(self, folder: str) -> str | None:
        """Where such a prefix lies."""
        return below(_plain(self.url), _plain(self.beside(folder).url))

    def remove(self, path: bytes) -> None:
        """Remove a file."""
        fs, root = self._fs()
        place = self._at(root, path)
        with self._writing(path), contextlib.suppress(FileNotFoundError):
            if fs.exists(place):
                fs.rm_file(place)

    def remove_folder(self, path: bytes) -> None:
        """Remove all below a prefix."""
        fs, root = self._fs()
        place = self._at(root, path)
        with self._writing(path), contextlib.suppress(FileNotFoundError):
            fs.invalidate_cache()
            if fs.exists(place):
                fs.rm(place, recursive=True)

    def folders(self, path: bytes) -> list[bytes]:
        """The names of the folders in a folder."""
        fs, root = self._fs()
        with self._reading(path):
            fs.invalidate_cache()
            try:
                found = fs.ls(self._at(root, path), detail=True)
            except FileNotFoundError:
                return []
        names = (f["name"].rstrip("/").rpartition("/")[2] for f in found if f["type"] != "file")
        return sorted(name.encode() for name in names)

    def keep_times(self, path: bytes, modified: int) -> None:
        """Object stores keep their own times."""

    @property
    def flat(self) -> bool:
        """Object stores have no folders."""
        return self.url.partition("://")[0] in _FLAT

    @property
    def copies(self) -> bool:
        """Object stores have no rename."""
        return self.flat

    def admit(self, path: bytes) -> None:
        """Names are text, and those of folders are taken."""
        fs, root = self._fs()
        place = self._at(root, path)
        with self._writing(path):
            if not self.flat and fs.isdir(place):
                raise BadName("a folder has the name that a file is to get", got=shown(path))

    @staticmethod
    def _at(root: str, path: bytes) -> str:
        try:
            return root + "/" + safe(path).decode()
        except UnicodeDecodeError:
            raise BadName("the store has only names in UTF-8", got=shown(path)) from None

    @staticmethod
    def _make_folder(fs: Any, place: str) -> None:
        if not _is_flat(fs):
            fs.makedirs(place.rpartition("/")[0], exist_ok=True)

    @contextlib.contextmanager
    def _reading(self, path: bytes) -> Iterator[None]:
        """Every client has exceptions of its own: to the user they are one of two errors."""
        try:
            yield
        except PenstockError:
            raise
        except PermissionError as error:
            raise ReadError(
                f"the store does not let us read: {error}",
                got=f"{self.url} {shown(path)}".rstrip(),
                fix="see the filesystem's own credentials: fs.key, fs.secret, fs.token, ...",
            ) from error
        except Exception as error:
            raise EphemeralReadError(
                f"the store failed: {error or type(error).__name__}",
                got=f"{self.url} {shown(path)}".rstrip(),
            ) from error

    @contextlib.contextmanager
    def _writing(self, path: bytes) -> Iterator[None]:
        try:
            yield
        except PenstockError:
            raise
        except Exception as error:
            lasting = isinstance(error, PermissionError)
            raise (WriteError if lasting else EphemeralWriteError)(
                f"the store cannot write: {error or type(error).__name__}",
                got=f"{self.url} {shown(path)}",
                fix="let these credentials write there" if lasting else None,
            ) from error


class _Reading:
    """An open file of a filesystem; it can be read back and forth."""

    def __init__(self, file: Any, storage: FsspecStorage, path: bytes) -> None:
        self._file = file
        self._storage = storage
        self._path = path

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; empty at the end."""
        with self._storage._reading(self._path):
            return bytes(self._file.read(size))

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go on from another byte."""
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        """The next byte."""
        return int(self._file.tell())

    def seekable(self) -> bool:
        """Yes."""
        return True

    def readable(self) -> bool:
        """Yes."""
        return True

    @property
    def closed(self) -> bool:
        """Whether it is freed."""
        return bool(self._file.closed)

    def close(self) -> None:
        """Free it."""
        self._file.close()


class _Writing:
    """A file under way; an object store shows it when it is complete."""

    def __init__(self, file: Any, storage: FsspecStorage, path: bytes) -> None:
        self._file = file
        self._storage = storage
        self._path = path

    def write(self, data: bytes, /) -> int:
        """Take bytes."""
        with self._storage._writing(self._path):
            return int(self._file.write(data))

    def flush(self) -> None:
        """Clients send whole blocks; what is left goes with `close`."""

    def close(self) -> None:
        """Complete it."""
        with self._storage._writing(self._path):
            self._file.close()


def _move(fs: Any, old: str, new: str) -> None:
    if not _is_flat(fs):
        fs.mv(old, new)
        return
    # Not the client's own move: it takes a name with `*` or `[` in it for a glob, and puts a file
    # *into* a prefix that has its new name.
    fs.cp_file(old, new)
    reached("file-copied", file=new)
    fs.rm_file(old)


def _plain(url: str) -> str:
    scheme, _, path = url.partition("://")
    return f"{scheme}://" + posixpath.normpath(path).lstrip("/")


def _is_flat(fs: Any) -> bool:
    """Object stores have no folders: an empty one is missing."""
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    return bool(_FLAT & set(protocols))


def _must_be(fs: Any, root: str) -> str:
    """What has to be there even when it is empty: the folder, or the bucket."""
    bucket = root.partition("/")[0]
    return bucket if _is_flat(fs) and bucket else ("/" if _is_flat(fs) else root)


def _argument(name: str, text: str) -> Any:
    """Filesystems want more than text: true, false, and JSON objects and lists."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"the option fs.{name} is no JSON: {error}") from None


def _told(when: str) -> datetime | int:
    """The time that an FTP server tells: digits, and UTC."""
    try:
        return datetime.strptime(when[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return 0


def _entry(path: bytes, facts: dict[str, Any]) -> Entry:
    when = next((facts[name] for name in _TIMES if facts.get(name)), 0)
    if isinstance(when, str):
        when = _told(when)
    if isinstance(when, datetime):
        when = when.timestamp()
    moment = int(float(when) * 1e9) if isinstance(when, int | float) else 0
    tag = next((str(facts[name]) for name in _TAGS if facts.get(name)), "")
    return Entry(path, int(facts.get("size") or 0), moment, tag)
