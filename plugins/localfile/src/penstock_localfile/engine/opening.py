"""Files opened as they were when they were discovered: never a short one, never a longer one."""

from __future__ import annotations

from penstock.contracts.errors import DataLossError
from penstock_localfile.engine.ledger import Logged
from penstock_localfile.engine.names import shown
from penstock_localfile.engine.storage import Readable, Storage


class AsLogged:
    """A file that ends where it ended when it was discovered.

    What was added since belongs to a later version of it. A file that has become shorter is not
    the file that was planned, and reading it fails.
    """

    def __init__(self, file: Readable, logged: Logged, start: int) -> None:
        self.inner = file
        self._logged = logged
        self._left = logged.entry.size - start

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; empty at the end."""
        wanted = self._left if size < 0 else min(size, self._left)
        if wanted <= 0:
            return b""
        data = self.inner.read(wanted)
        if not data:
            raise DataLossError(
                "a file is shorter than when it was discovered",
                expected=f"{self._logged.entry.size} bytes",
                got=f"{self._logged.entry.size - self._left} bytes of "
                + shown(self._logged.entry.path),
                fix="put the file back; use min_age, stable or marker so that files still being "
                "written are not taken",
            )
        self._left -= len(data)
        return data

    def close(self) -> None:
        """Free it."""
        self.inner.close()


def open_logged(storage: Storage, logged: Logged, start: int = 0) -> AsLogged:
    """Open a discovered file.

    Raises:
        DataLossError: it is gone, shorter, or another file of the same size has taken its name.
    """
    entry = logged.entry
    now = storage.stat(entry.path)
    if now is None or now.size < entry.size or (now.size == entry.size and now != entry):
        raise DataLossError(
            "a file is not the one that was discovered",
            expected=f"{shown(entry.path)}, {entry.size} bytes, modified {entry.modified}",
            got="nothing" if now is None else f"{now.size} bytes, modified {now.modified}",
            fix="put the file back, or start from a new checkpoint",
        )
    return AsLogged(storage.open(entry.path, start), logged, start)
