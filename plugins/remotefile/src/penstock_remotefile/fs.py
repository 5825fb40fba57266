"""Whatever fsspec knows as a storage: object stores, FTP, memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from attrs import evolve, frozen

from penstock.contracts import Secret
from penstock.contracts.errors import DataLossError, EphemeralReadError, ReadError, SetupError
from penstock_localfile.engine.names import safe, shown
from penstock_localfile.engine.storage import Entry, Readable, Storage, Writable

_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created", "modify")
_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "e_tag", "checksum")


@frozen
class FsspecStorage(Storage):
    """A folder, bucket or prefix. Object stores show a file only when it is complete."""

    url: str
    arguments: tuple[tuple[str, str | Secret], ...] = ()

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
        given = {k: v.reveal() if isinstance(v, Secret) else v for k, v in self.arguments}
        try:
            fs, root = url_to_fs(self.url, **given)
        except (ImportError, ValueError) as error:
            raise SetupError(
                f"fsspec cannot reach the URL: {error}",
                got=self.url,
                fix="install the package that the message names",
            ) from error
        return fs, root.rstrip("/")

    def walk(self, below: bytes = b"", *, recursive: bool = True) -> Iterator[Entry]:
        """The files below a prefix."""
        fs, root = self._fs()
        top = root + "/" + below.decode() if below else root
        fs.invalidate_cache()
        depth = None if recursive else 1
        try:
            found = fs.find(top, maxdepth=depth, detail=True)
        except FileNotFoundError:
            found = {}
        except OSError as error:
            raise EphemeralReadError(f"the listing failed: {error}", got=self.url) from error
        if not found and not below and not fs.exists(root) and not self._is_flat(fs):
            raise ReadError("the folder to read is missing", got=self.url)
        for name, facts in found.items():
            path = name[len(root) :].lstrip("/").encode()
            if path and facts.get("type", "file") == "file":
                yield _entry(path, facts)

    @staticmethod
    def _is_flat(fs: Any) -> bool:
        """Object stores have no folders: an empty one is missing."""
        protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
        return bool({"s3", "gs", "gcs", "abfs", "az", "memory"} & set(protocols))

    def stat(self, path: bytes) -> Entry | None:
        """One file as it is now."""
        fs, root = self._fs()
        fs.invalidate_cache()
        try:
            facts = fs.info(self._at(root, path))
        except FileNotFoundError:
            return None
        return _entry(path, facts) if facts.get("type") == "file" else None

    def open(self, path: bytes, start: int = 0) -> Readable:
        """Read a file from an offset on."""
        fs, root = self._fs()
        try:
            file = fs.open(self._at(root, path), "rb")
        except FileNotFoundError:
            raise DataLossError("a file is no longer there", got=shown(path)) from None
        if start:
            file.seek(start)
        return file  # type: ignore[no-any-return]

    def create(self, path: bytes) -> Writable:
        """Write a new file."""
        fs, root = self._fs()
        place = self._at(root, path)
        fs.makedirs(place.rpartition("/")[0], exist_ok=True)
        return fs.open(place, "wb")  # type: ignore[no-any-return]

    def rename(self, old: bytes, new: bytes, *, to: Storage | None = None) -> None:
        """Move a file: object stores copy it whole, then remove the old name."""
        fs, root = self._fs()
        there = to._fs()[1] if isinstance(to, FsspecStorage) else root
        target = self._at(there, new)
        fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        fs.mv(self._at(root, old), target)

    def beside(self, folder: str) -> FsspecStorage:
        """Another prefix."""
        if "://" in folder:
            return evolve(self, url=folder)
        return evolve(self, url=f"{self.url.rstrip('/')}/{folder}")

    def remove(self, path: bytes) -> None:
        """Remove a file."""
        fs, root = self._fs()
        place = self._at(root, path)
        if fs.exists(place):
            fs.rm_file(place)

    def remove_folder(self, path: bytes) -> None:
        """Remove all below a prefix."""
        fs, root = self._fs()
        place = self._at(root, path)
        if fs.exists(place):
            fs.rm(place, recursive=True)

    def folders(self, path: bytes) -> list[bytes]:
        """The names of the folders in a folder."""
        fs, root = self._fs()
        fs.invalidate_cache()
        try:
            found = fs.ls(self._at(root, path), detail=True)
        except FileNotFoundError:
            return []
        names = (f["name"].rstrip("/").rpartition("/")[2] for f in found if f["type"] != "file")
        return sorted(name.encode() for name in names)

    def keep_times(self, path: bytes, modified: int) -> None:
        """Object stores keep their own times."""

    @staticmethod
    def _at(root: str, path: bytes) -> str:
        return root + "/" + safe(path).decode()


def _entry(path: bytes, facts: dict[str, Any]) -> Entry:
    when = next((facts[name] for name in _TIMES if facts.get(name)), 0)
    if isinstance(when, datetime):
        when = when.timestamp()
    moment = int(float(when) * 1e9) if isinstance(when, int | float) else 0
    tag = next((str(facts[name]) for name in _TAGS if facts.get(name)), "")
    return Entry(path, int(facts.get("size") or 0), moment, tag)
