"""What becomes of a file once every sink has its records.

Each action can be repeated: after a kill in between, the next run begins again at the first file
that is not recorded as settled, and finds some of them settled already.
"""

from __future__ import annotations

import logging
from typing import Literal

from attrs import frozen

from penstock.contracts.points import reached
from penstock_localfile.engine.ledger import Ledger, Logged
from penstock_localfile.engine.names import shown, suffixed
from penstock_localfile.engine.storage import Storage, left_by_a_copy

log = logging.getLogger("penstock.localfile")
Action = Literal["keep", "delete", "archive", "rename"]
_AT_ONCE = 100


@frozen
class Afterwards:
    """What to do with a file.

    Attributes:
        action: `keep`, `delete`, move it into the folder `archive`, or `rename` it with `suffix`.
        archive: A folder on the same system, absolute or below the root; the path below it stays.
        suffix: Added to the name by `rename`.
        marker: The suffix of marker files; a file's marker goes with it.
    """

    action: Action = "keep"
    archive: str = ".archive"
    suffix: str = ".done"
    marker: str = ""

    def settle(self, storage: Storage, ledger: Ledger, end: int) -> None:
        """Settle every file before number `end` that is not settled yet."""
        if self.action == "keep":
            return
        if end > int(ledger.get("wanted", "0")):
            ledger.put("wanted", str(end))
        self.resume(storage, ledger)

    def resume(self, storage: Storage, ledger: Ledger) -> None:
        """Do what an earlier process was told to do and did not finish."""
        if self.action == "keep":
            return
        wanted, settled = int(ledger.get("wanted", "0")), int(ledger.get("settled", "0"))
        while settled < wanted:
            some = ledger.between(settled, min(settled + _AT_ONCE, wanted))
            for file in some:
                self._one(storage, file)
                reached("file-settled", number=file.number)
            settled += len(some)
            ledger.put("settled", str(settled))

    def _one(self, storage: Storage, file: Logged) -> None:
        path = file.entry.path
        now = storage.stat(path)
        if now is None:
            return  # settled before the kill, or taken away by somebody else
        if now != file.entry:
            log.warning("%s has changed since it was read, and stays", shown(path))
            return
        if self.marker:  # first: a kill in between leaves a file that the next run settles
            storage.remove(path + self.marker.encode())
        if self.action == "delete":
            storage.remove(path)
        elif self.action == "rename":
            _move(storage, file, storage, self.suffix.encode())
        else:
            _move(storage, file, storage.beside(self.archive), b"")


def _move(storage: Storage, file: Logged, to: Storage, suffix: bytes) -> None:
    path = file.entry.path
    target = suffixed(path, suffix)
    if to.stat(target) is not None:
        if left_by_a_copy(storage, path, to, target):
            storage.remove(path)
            return
        # An earlier file of this name is there already.
        target = suffixed(path, b".%d" % file.number + suffix)
    storage.rename(path, target, to=to)
