"""An SFTP server as a storage."""

from __future__ import annotations

import logging
import posixpath
import stat as stat_module
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from attrs import evolve, frozen

from penstock.contracts.errors import (
    DataLossError,
    EphemeralReadError,
    EphemeralWriteError,
    ReadError,
    WriteError,
)
from penstock_localfile.engine.names import BadName, below, safe, shown
from penstock_localfile.engine.storage import (
    Entry,
    Readable,
    Skip,
    Storage,
    Writable,
    permissions,
)
from penstock_remotefile.listing import listed, resolved
from penstock_remotefile.login import Login, is_lost, pool
from penstock_remotefile.transfer import Download, Upload

if TYPE_CHECKING:
    import paramiko

log = logging.getLogger("penstock.remotefile")
T = TypeVar("T")
_SECOND = 1_000_000_000


@frozen
class SftpStorage(Storage):
    """A folder on an SFTP server."""

    login: Login
    root: str
    retries: int

    @property
    def open_at_once(self) -> int:
        """Each file under way holds a connection; one is left for everything else."""
        return max(1, self.login.connections - 1)

    @property
    def origin(self) -> str:
        """The URL of the folder, without a user's password."""
        root = shown(self.root.encode("utf-8", "surrogateescape"))
        return f"sftp://{self.login.user}@{self.login.address}{root}"

    def walk(
        self, below: bytes = b"", *, recursive: bool = True, skip: Skip | None = None
    ) -> Iterator[Entry]:
        """The regular files below a folder."""
        boundary = self._look(lambda sftp: resolved(sftp, self._at(b"")), b"")
        waiting = [below]
        while waiting:
            folder = waiting.pop()
            entries = self._look(lambda sftp, folder=folder: listed(sftp, self._at(folder)), folder)
            if entries is None:
                if folder == b"":
                    raise ReadError("the folder to read is missing", got=self.origin)
                continue
            for name, attributes in entries:
                path = folder + b"/" + name if folder else name
                mode = attributes.st_mode or 0
                if stat_module.S_ISDIR(mode):
                    if recursive and not (skip and skip(path)):
                        waiting.append(path)
                elif stat_module.S_ISREG(mode):
                    yield _entry(path, attributes)
                elif stat_module.S_ISLNK(mode):
                    found = self._behind_link(path, boundary)
                    if found is not None:
                        yield found

    def _behind_link(self, path: bytes, boundary: bytes) -> Entry | None:
        def look(sftp: paramiko.SFTPClient) -> Entry | None:
            try:
                target = resolved(sftp, self._at(path))
                attributes = sftp.stat(self._at(path))
            except FileNotFoundError:
                return None
            if posixpath.commonpath([target, boundary]) != boundary:
                log.warning("%s: a link out of the folder is passed over", shown(path))
                return None
            regular = stat_module.S_ISREG(attributes.st_mode or 0)
            return _entry(path, attributes) if regular else None

        return self._look(look, path)

    def stat(self, path: bytes) -> Entry | None:
        """One file as it is now."""

        def look(sftp: paramiko.SFTPClient) -> Entry | None:
            try:
                attributes = sftp.stat(self._at(path))
            except FileNotFoundError:
                return None
            folder = stat_module.S_ISDIR(attributes.st_mode or 0)
            return None if folder else _entry(path, attributes)

        return self._look(look, path)

    def open(self, path: bytes, start: int = 0) -> Readable:
        """Read a file from an offset on, many requests at once, again after a lost connection."""
        entry = self.stat(path)
        if entry is None:
            raise DataLossError("a file is no longer there", got=shown(path))
        return Download(self.login, self._at(path), path, entry, start, self.retries)

    def facts(self, path: bytes) -> dict[str, str]:
        """Its permission bits."""
        attributes = self._look(lambda sftp: sftp.stat(self._at(path)), path)
        mode = attributes.st_mode
        return {} if mode is None else {"mode": f"{mode & 0o777:03o}"}

    def admit(self, path: bytes) -> None:
        """Look what is there already."""
        safe(path)
        complaint = self._look(lambda sftp: self._in_the_way(sftp, path), path)
        if complaint:
            raise BadName(complaint, got=shown(path))

    def _in_the_way(self, sftp: paramiko.SFTPClient, path: bytes) -> str:
        mode = _mode(sftp, self._at(path))
        if mode is not None and stat_module.S_ISDIR(mode):
            return "a folder has the name that a file is to get"
        folder = path.rpartition(b"/")[0]
        while folder and (mode := _mode(sftp, self._at(folder))) is None:
            folder = folder.rpartition(b"/")[0]
        if not folder:
            return ""
        if not stat_module.S_ISDIR(mode or 0):
            return "a file is where a folder would be needed"
        root, real = resolved(sftp, self._at(b"")), resolved(sftp, self._at(folder))
        out = posixpath.commonpath([root, real]) != root
        return "a link on the way leads out of the folder" if out else ""

    def create(self, path: bytes, facts: Mapping[str, str] | None = None) -> Writable:
        """Write a new file."""
        self._make_folders(path)
        return Upload(self.login, self._at(path), path, permissions(facts))

    def rename(self, old: bytes, new: bytes, *, to: Storage | None = None) -> None:
        """Give a file another name; atomic where the server has posix-rename."""
        there = to if isinstance(to, SftpStorage) else self
        there._make_folders(new)

        def move(sftp: paramiko.SFTPClient) -> None:
            source, target = self._at(old), there._at(new)
            try:
                _replace(sftp, source, target)
            except FileNotFoundError:
                # A repeated call after a lost answer: the first one did it.
                sftp.stat(target)

        self._change(move, new)

    def beside(self, folder: str) -> SftpStorage:
        """Another folder of this server."""
        return evolve(self, root=posixpath.join(self.root, folder))

    def below(self, folder: str) -> str | None:
        """Where such a folder lies."""
        plain = posixpath.normpath
        return below(plain(self.root), plain(posixpath.join(self.root, folder)))

    def remove(self, path: bytes) -> None:
        """Remove a file."""

        def unlink(sftp: paramiko.SFTPClient) -> None:
            try:
                sftp.remove(self._at(path))
            except FileNotFoundError:
                return

        self._change(unlink, path)

    def remove_folder(self, path: bytes) -> None:
        """Remove a folder and all below it."""
        for entry in list(self.walk(path)):
            self.remove(entry.path)
        inner = [path]
        for folder in inner:
            inner += [folder + b"/" + name for name in self.folders(folder)]
        for folder in reversed(inner):

            def rmdir(sftp: paramiko.SFTPClient, folder: bytes = folder) -> None:
                try:
                    sftp.rmdir(self._at(folder))
                except FileNotFoundError:
                    return
                except OSError as error:
                    # A task that still runs has added a file; the next sweep takes it.
                    log.debug("%s stays: %s", shown(folder), error)

            self._change(rmdir, folder)

    def folders(self, path: bytes) -> list[bytes]:
        """The names of the folders in a folder."""
        entries = self._look(lambda sftp: listed(sftp, self._at(path)), path) or []
        return sorted(n for n, a in entries if stat_module.S_ISDIR(a.st_mode or 0))

    def keep_times(self, path: bytes, modified: int) -> None:
        """Set a file's modification time."""
        seconds = modified // _SECOND
        self._change(lambda sftp: sftp.utime(self._at(path), (seconds, seconds)), path)

    def _make_folders(self, path: bytes) -> None:
        names = path.split(b"/")[:-1]

        def make(sftp: paramiko.SFTPClient) -> None:
            missing = []
            place = b"/".join(names)
            while True:
                try:
                    sftp.stat(self._at(place))
                    break
                except FileNotFoundError:
                    missing.append(place)
                    if not place:
                        break
                    place = place.rpartition(b"/")[0]
            for folder in reversed(missing):
                try:
                    sftp.mkdir(self._at(folder))
                except OSError as error:
                    try:
                        sftp.stat(self._at(folder))  # another task may have made it meanwhile
                    except FileNotFoundError:
                        raise error from None

        self._change(make, path)

    def _at(self, path: bytes) -> bytes:
        root = self.root.encode("utf-8", "surrogateescape")
        return root if not path else posixpath.join(root, safe(path))

    def _look(self, do: Callable[[paramiko.SFTPClient], T], path: bytes) -> T:
        try:
            return self._call(do)
        except PermissionError as error:
            raise ReadError(
                "the server does not let us look",
                got=shown(path) or self.origin,
                fix=f"let {self.login.user} read there",
            ) from error

    def _change(self, do: Callable[[paramiko.SFTPClient], None], path: bytes) -> None:
        try:
            self._call(do)
        except PermissionError as error:
            raise WriteError(
                "the server refuses to write",
                got=f"{shown(path)}: {error}",
                fix="let the user write there, or choose another folder",
            ) from error
        except OSError as error:
            raise WriteError(f"the server cannot write: {error}", got=shown(path)) from error
        except EphemeralReadError as error:
            raise EphemeralWriteError(error.message, got=error.got, fix=error.fix) from error

    def _call(self, do: Callable[[paramiko.SFTPClient], T]) -> T:
        """Do something on a connection; once more, and again, after a lost one."""
        import paramiko

        for attempt in range(self.retries + 1):
            try:
                with pool(self.login).client() as sftp:
                    try:
                        return do(sftp)
                    except (FileNotFoundError, PermissionError) as error:
                        failed: OSError = error  # the connection itself is well: keep it
                raise failed
            except (EOFError, OSError, paramiko.SSHException, EphemeralReadError) as error:
                if not is_lost(error):
                    raise
                if attempt == self.retries:
                    if isinstance(error, EphemeralReadError):
                        raise
                    raise EphemeralReadError(
                        f"the connection was lost: {error or type(error).__name__}",
                        got=self.login.address,
                    ) from error
            time.sleep(min(0.2 * 2**attempt, 5.0))
        raise AssertionError("not reached")


def _mode(sftp: paramiko.SFTPClient, place: bytes) -> int | None:
    """What kind of thing is there; None: nothing."""
    try:
        return sftp.stat(place).st_mode or 0
    except FileNotFoundError:
        try:
            return sftp.lstat(place).st_mode or 0  # a link to nothing
        except FileNotFoundError:
            return None


def _replace(sftp: paramiko.SFTPClient, source: bytes, target: bytes) -> None:
    try:
        sftp.posix_rename(source, target)
        return
    except OSError as error:
        if error.errno is not None or "unsupported" not in str(error).lower():
            raise
    try:
        sftp.rename(source, target)
    except OSError as refused:
        sftp.stat(source)
        try:
            sftp.stat(target)
        except FileNotFoundError:
            raise refused from None
        # A plain rename never replaces: the old file has to go first. A kill in between leaves
        # the new one under its temporary name, and whoever repeats this gives it its own.
        sftp.remove(target)
        sftp.rename(source, target)


def _entry(path: bytes, attributes: paramiko.SFTPAttributes) -> Entry:
    return Entry(path, attributes.st_size or 0, int(attributes.st_mtime or 0) * _SECOND)
