"""Moving bytes by SFTP: many requests under way, and on from the same byte after a break."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.contracts.errors import (
    DataLossError,
    EphemeralReadError,
    EphemeralWriteError,
    ReadError,
    WriteError,
)
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.storage import Entry
from penstock_remotefile.login import Login, is_lost, pool
from penstock_remotefile.pipeline import Pipeline, Sending

if TYPE_CHECKING:
    import paramiko

log = logging.getLogger("penstock.remotefile")


class Download:
    """A remote file read forward from an offset.

    A broken connection is replaced, and the transfer goes on where it stopped, if the file still
    has the same size and time; else it fails. It never ends early.
    """

    def __init__(
        self, login: Login, place: bytes, path: bytes, entry: Entry, start: int, retries: int
    ) -> None:
        self._login = login
        self._place = place
        self._path = path
        self._entry = entry
        self._at = start
        self._retries = retries
        self._held: contextlib.ExitStack | None = None
        self._file: paramiko.SFTPFile | None = None
        self._pipeline: Pipeline
        self._buffer = b""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; empty at the end."""
        import paramiko

        left = self._entry.size - self._at
        wanted = left if size < 0 else min(size, left)
        if wanted <= 0:
            return b""
        for attempt in range(self._retries + 1):
            try:
                if self._file is None:
                    self._file = self._open()
                data = self._buffer or self._pipeline.read()
                if not data:
                    raise self._short()
                data, self._buffer = data[:wanted], data[wanted:]
                self._at += len(data)
                return data
            except DataLossError:
                self._drop()
                raise
            except PermissionError as error:
                self._drop()
                raise ReadError(
                    "the server does not let us read a file",
                    got=shown(self._path),
                    fix=f"let {self._login.user} read it",
                ) from error
            except (EOFError, OSError, paramiko.SSHException, EphemeralReadError) as error:
                self._drop()
                if attempt == self._retries:
                    raise EphemeralReadError(
                        f"a transfer broke off: {error or type(error).__name__}",
                        got=f"{shown(self._path)} at byte {self._at} of {self._entry.size}",
                    ) from error
                log.warning("%s: on from byte %d after %r", shown(self._path), self._at, error)
                time.sleep(min(0.2 * 2**attempt, 5.0))
        raise AssertionError("not reached")

    def _open(self) -> paramiko.SFTPFile:
        stack = contextlib.ExitStack()
        sftp = stack.enter_context(pool(self._login).client())
        try:
            file = sftp.open(self._place, "rb", bufsize=0)
            facts = file.stat()
            same = (facts.st_size, facts.st_mtime)
            if same != (self._entry.size, self._entry.modified // 1_000_000_000):
                raise DataLossError(
                    "a file has changed while it was read",
                    expected=f"{shown(self._path)}, {self._entry.size} bytes",
                    got=f"{facts.st_size} bytes",
                )
            self._pipeline = Pipeline(sftp, file.handle, self._at, self._entry.size)
        except BaseException as error:
            stack.__exit__(type(error), error, error.__traceback__)
            raise
        self._held = stack
        return file

    def _short(self) -> DataLossError:
        return DataLossError(
            "a file is shorter than when it was discovered",
            expected=f"{self._entry.size} bytes",
            got=f"{self._at} bytes of {shown(self._path)}",
        )

    def _drop(self) -> None:
        """Give up the connection with what is under way on it."""
        held, self._held, self._file = self._held, None, None
        self._buffer = b""
        if held is not None:
            broken = ConnectionError("broken")
            with contextlib.suppress(ConnectionError):
                held.__exit__(ConnectionError, broken, None)

    def close(self) -> None:
        """Give the connection back, if all that was asked for has come."""
        if self._file is None:
            return
        if not self._pipeline.idle:
            self._drop()  # answers to requests ahead would follow
            return
        self._file.close()
        held, self._held, self._file = self._held, None, None
        if held is not None:
            held.close()


class Upload:
    """A remote file written forward. What fails fails as a whole: the task begins anew."""

    def __init__(self, login: Login, place: bytes, path: bytes, mode: int | None = None) -> None:
        self._path = path
        self._stack = contextlib.ExitStack()
        self._file: Any = None
        with self._told():
            self._sftp = self._stack.enter_context(pool(login).client())
            self._file = self._sftp.open(place, "wb", bufsize=0)
            if mode is not None:
                self._file.chmod(mode)
            self._sending = Sending(self._sftp, self._file.handle)

    def write(self, data: bytes, /) -> int:
        """Take bytes."""
        with self._told():
            self._sending.write(data)
        return len(data)

    def flush(self) -> None:
        """What does not fill a request waits for more; `close` sends it."""

    def close(self) -> None:
        """See that the server has all bytes, on disk where it can tell."""
        if self._file is None:
            return
        with self._told():
            sent = self._sending.finish()
            _sync(self._sftp, self._file)
            there = self._file.stat().st_size
            self._file.close()
            if there != sent:
                raise OSError(f"the server holds {there} of {sent} bytes")
        self._file = None
        self._stack.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        import paramiko

        try:
            yield
        except (EOFError, OSError, paramiko.SSHException, EphemeralReadError) as error:
            if self._file is not None:
                self._file._closed = True  # or paramiko closes it once more when it is collected
                self._file = None
            broken = ConnectionError("broken")
            with contextlib.suppress(ConnectionError):
                self._stack.__exit__(ConnectionError, broken, None)
            raise (EphemeralWriteError if is_lost(error) else WriteError)(
                f"a file cannot be written: {error or type(error).__name__}",
                got=shown(self._path),
            ) from error


def _sync(sftp: paramiko.SFTPClient, file: Any) -> None:
    """Ask the server to put a file on disk, as OpenSSH can."""
    from paramiko.sftp import CMD_EXTENDED

    try:
        sftp._request(CMD_EXTENDED, "fsync@openssh.com", file.handle)
    except OSError as error:
        if "unsupported" not in str(error).lower():
            raise
        log.debug("the server cannot sync files: %s", error)
