"""Where downloads are kept that all runs on this machine share.

$PENSTOCK_CACHE, else $XDG_CACHE_HOME/penstock, else ~/.cache/penstock. Safe to delete at any time.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


def cache(*names: str) -> Path:
    """A folder in the cache; made if need be."""
    if named := os.environ.get("PENSTOCK_CACHE"):
        root = Path(named)
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"
    folder = root.joinpath(*names)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock of a path: one process at a time, on this machine."""
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
