"""The local filesystem as a storage."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import stat as stat_module
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

from attrs import frozen

from penstock.contracts.durable import sync_folder
from penstock.contracts.errors import DataLossError, ReadError, WriteError
from penstock_localfile.engine.names import BadName, below, safe, shown
from penstock_localfile.engine.storage import (
    Entry,
    Readable,
    Skip,
    Storage,
    Writable,
    permissions,
)

log = logging.getLogger("penstock.localfile")


@frozen
class LocalStorage(Storage):
    """A folder of this machine, or one that all machines share."""

    root: str
    cheap_reads = True
    seeks = True

    @property
    def origin(self) -> str:
        """The folder's absolute path as a URL."""
        return "file:" + shown(os.fsencode(os.path.abspath(self.root)))

    def walk(
        self, below: bytes = b"", *, recursive: bool = True, skip: Skip | None = None
    ) -> Iterator[Entry]:
        """The regular files below a folder."""
        top = self._at(below) if below else os.fsencode(self.root)
        if not below and not os.path.isdir(top):
            raise ReadError(
                "the folder to read is missing",
                expected="a folder, a file or a glob whose folder exists",
                got=self.root,
                fix="make the folder, or mend the path",
            )
        boundary = os.path.realpath(os.fsencode(self.root))
        waiting = [below]
        while waiting:
            folder = waiting.pop()
            try:
                entries = os.scandir(self._at(folder) if folder else top)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ReadError(
                    f"a folder cannot be listed: {error.strerror}", got=shown(folder) or self.root
                ) from error
            with entries:
                for found in entries:
                    path = folder + b"/" + found.name if folder else found.name
                    if found.is_dir(follow_symlinks=False):
                        if recursive and not (skip and skip(path)):
                            waiting.append(path)
                        continue
                    entry = self._entry(found, path, boundary)
                    if entry is not None:
                        yield entry

    def _entry(self, found: os.DirEntry[bytes], path: bytes, boundary: bytes) -> Entry | None:
        try:
            if found.is_symlink():
                target = os.path.realpath(found.path)
                if os.path.commonpath([target, boundary]) != boundary:
                    log.warning("%s: a link out of the folder is passed over", shown(path))
                    return None
            facts = found.stat()
        except FileNotFoundError:
            return None  # removed since it was listed, or a link to nothing
        if not stat_module.S_ISREG(facts.st_mode):
            return None
        return Entry(path, facts.st_size, facts.st_mtime_ns)

    def stat(self, path: bytes) -> Entry | None:
        """One file as it is now."""
        try:
            facts = os.stat(self._at(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Entry(path, facts.st_size, facts.st_mtime_ns)

    def open(self, path: bytes, start: int = 0) -> Readable:
        """Read a file from an offset on."""
        try:
            file = open(self._at(path), "rb", buffering=0)  # noqa: SIM115
        except FileNotFoundError:
            raise DataLossError(
                "a file is no longer there",
                got=shown(path),
                fix="put it back, or start from a new checkpoint",
            ) from None
        except OSError as error:
            raise ReadError(f"a file cannot be read: {error.strerror}", got=shown(path)) from error
        file.seek(start)
        return file

    def facts(self, path: bytes) -> dict[str, str]:
        """Its permission bits."""
        try:
            return {"mode": f"{os.stat(self._at(path)).st_mode & 0o777:03o}"}
        except FileNotFoundError:
            return {}

    def admit(self, path: bytes) -> None:
        """Look what is there already."""
        place = self._inside(path, BadName)
        if os.path.isdir(place):
            raise BadName("a folder has the name that a file is to get", got=shown(path))
        above = os.path.dirname(os.path.abspath(place))
        while not os.path.lexists(above) and above != os.path.dirname(above):
            above = os.path.dirname(above)
        if not os.path.isdir(above):
            raise BadName("a file is where a folder would be needed", got=shown(path))

    def create(self, path: bytes, facts: Mapping[str, str] | None = None) -> Writable:
        """Write a new file."""
        place, mode = self._inside(path), permissions(facts)
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            file = open(place, "wb")  # noqa: SIM115
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            return DurableFile(file, path)
        except OSError as error:
            raise failed_write(error, path) from error

    def beside(self, folder: str) -> LocalStorage:
        """Another folder of this machine."""
        return LocalStorage(os.path.join(self.root, folder))

    def below(self, folder: str) -> str | None:
        """Where such a folder lies, links followed."""
        real = os.path.realpath
        return below(real(self.root), real(os.path.join(self.root, folder)))

    def rename(self, old: bytes, new: bytes, *, to: Storage | None = None) -> None:
        """Give a file another name."""
        target = (to if isinstance(to, LocalStorage) else self)._inside(new)
        folder = os.path.dirname(target)
        try:
            os.makedirs(folder, exist_ok=True)
            os.rename(self._at(old), target)
        except OSError as error:
            raise failed_write(error, new) from error

    def sync(self, folders: Iterable[bytes]) -> None:
        """Make names given in these folders survive a power cut."""
        for folder in folders:
            place = self._at(folder) if folder else os.fsencode(self.root)
            try:
                sync_folder(place)
            except FileNotFoundError:
                continue  # its files were taken away, and it with them
            except OSError as error:
                raise failed_write(error, folder) from error

    def remove(self, path: bytes) -> None:
        """Remove a file."""
        try:
            os.unlink(self._at(path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise failed_write(error, path) from error

    def remove_folder(self, path: bytes) -> None:
        """Remove a folder and all below it."""
        place = self._at(path)
        # A task that still runs may add a file while the folder goes; the next sweep takes it.
        shutil.rmtree(place, ignore_errors=True)

    def folders(self, path: bytes) -> list[bytes]:
        """The names of the folders in a folder."""
        try:
            with os.scandir(self._at(path)) as entries:
                return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def keep_times(self, path: bytes, modified: int) -> None:
        """Set a file's modification time."""
        os.utime(self._at(path), ns=(modified, modified))

    def _inside(self, path: bytes, kind: type[WriteError] = WriteError) -> bytes:
        """Where a file may be made: no link on the way leads out of the root."""
        place = self._at(path)
        root = os.path.realpath(os.fsencode(self.root))
        if os.path.commonpath([os.path.realpath(os.path.dirname(place)), root]) != root:
            raise kind("a link on the way leads out of the folder", got=shown(path))
        return place

    def _at(self, path: bytes) -> bytes:
        return os.path.join(os.fsencode(self.root), safe(path))


class DurableFile:
    """A local file whose `close` returns only when its bytes are on disk."""

    def __init__(self, file: BinaryIO, path: bytes) -> None:
        self._file = file
        self._path = path

    def write(self, data: bytes, /) -> int:
        """Take bytes."""
        try:
            return self._file.write(data)
        except OSError as error:
            raise failed_write(error, self._path) from error

    def flush(self) -> None:
        """Hand them to the system."""
        self._file.flush()

    def close(self) -> None:
        """Make what was written durable."""
        if self._file.closed:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            with contextlib.suppress(OSError):  # the first failure is the one to tell
                self._file.close()
            raise failed_write(error, self._path) from error


def failed_write(error: OSError, path: bytes) -> WriteError:
    """What a failed system call means to the user."""
    fixes = {
        errno.ENOSPC: "free space on the disk, then start again: nothing was published",
        errno.EDQUOT: "raise the quota, then start again: nothing was published",
        errno.EACCES: "let the user who runs Spark write there",
        errno.EROFS: "choose a folder that can be written",
        errno.EXDEV: "temporary and final names must be on one filesystem",
    }
    return WriteError(
        f"a file cannot be written: {error.strerror}",
        got=shown(path),
        fix=fixes.get(error.errno or 0),
    )
