"""What a system that holds files must offer: the one thing an adapter implements.

An adapter is an attrs-frozen, picklable value without a live handle. Paths are bytes, relative to
the storage's root, with `/` between names: names are hostile and need not be UTF-8.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Protocol

from attrs import frozen

from penstock_localfile.engine.names import safe

Skip = Callable[[bytes], bool]
"""Whether a folder below the root is of no interest."""


@frozen
class Entry:
    """A file as a listing shows it.

    Attributes:
        path: Below the root.
        size: In bytes.
        modified: Nanoseconds since the epoch; 0 where the system does not tell.
        tag: What else tells one content from another (an ETag); empty where there is none.
    """

    path: bytes
    size: int
    modified: int = 0
    tag: str = ""


class Readable(Protocol):
    """An open file, read forward from where it was opened."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; empty at the end."""

    def close(self) -> None:
        """Free it."""


class Writable(Protocol):
    """A file being written under a temporary name."""

    def write(self, data: bytes, /) -> int:
        """Take bytes."""

    def flush(self) -> None:
        """Hand them to the system."""

    def close(self) -> None:
        """Make what was written durable, and free it."""


class Storage(ABC):
    """A root folder on some system."""

    cheap_reads: bool = False
    """Whether the driver may read file contents to cut a batch within a file."""
    seeks: bool = False
    """Whether an open file can be read back and forth; else such a format takes a whole copy."""

    open_at_once: int = 100
    """How many files one task may write at a time."""

    flat: bool = False
    """Whether a file and a folder may have the same name, as in an object store."""

    copies: bool = False
    """Whether a rename is a copy and a removal, so that a kill in between leaves both."""

    @property
    @abstractmethod
    def origin(self) -> str:
        """A name for this root that stays the same for ever: the origin of stamps."""

    @abstractmethod
    def walk(
        self, below: bytes = b"", *, recursive: bool = True, skip: Skip | None = None
    ) -> Iterator[Entry]:
        """The regular files below a folder, in any order; nothing if the folder is missing.

        Must not leave the root: a symbolic link that points outside is passed over with a warning.
        May leave out the folders that `skip` names, and should where that saves a request.

        Raises:
            ReadError: the root is missing or may not be listed.
        """

    @abstractmethod
    def stat(self, path: bytes) -> Entry | None:
        """One file as it is now; None if it is not there."""

    @abstractmethod
    def open(self, path: bytes, start: int = 0) -> Readable:
        """Read a file from an offset on.

        Raises:
            DataLossError: it is not there.
            ReadError: it cannot be read; EphemeralReadError if a retry may help.
        """

    def facts(self, path: bytes) -> dict[str, str]:
        """What the system keeps beside a file's content: `mode` in octal, `meta.` and a name."""
        return {}

    def admit(self, path: bytes) -> None:
        """See that a file could get this name here. Called before anything is decided.

        Raises:
            BadName: it could not: the system has no such names, a folder has it, a file is where
                a folder would be needed, or a link on the way leads out of the root.
        """
        safe(path)

    def create(self, path: bytes, facts: Mapping[str, str] | None = None) -> Writable:
        """Write a new file, making the folders above it; `close` makes it durable.

        It gets those of the `facts` that this system can keep.
        """
        raise self.read_only()

    def rename(self, old: bytes, new: bytes, *, to: Storage | None = None) -> None:
        """Give a file another name, atomically, making the folders above it; replaces `new`.

        `to` is another root on the same system, as `beside` gives it.
        """
        raise self.read_only()

    def sync(self, folders: Iterable[bytes]) -> None:  # noqa: B027
        """Make names given in these folders durable, where a rename alone is not."""

    def beside(self, folder: str) -> Storage:
        """Another root on the same system: an absolute folder, or one below this root."""
        raise self.read_only()

    def below(self, folder: str) -> str | None:
        """Where the root that `beside` gives lies below this one; `.`: here; None: elsewhere."""
        return None

    def remove(self, path: bytes) -> None:
        """Remove a file; no matter if it is not there."""
        raise self.read_only()

    def remove_folder(self, path: bytes) -> None:
        """Remove a folder and all below it; no matter if it is not there."""
        raise self.read_only()

    def folders(self, path: bytes) -> list[bytes]:
        """The names of the folders in a folder; none if it is missing."""
        raise self.read_only()

    def keep_times(self, path: bytes, modified: int) -> None:
        """Set a file's modification time, in nanoseconds."""
        raise self.read_only()

    def read_only(self) -> Exception:
        """The error of a system that can only be read."""
        from penstock.contracts.errors import WriteError

        return WriteError(f"{self.origin} can only be read", fix="write to another system")


def permissions(facts: Mapping[str, str] | None) -> int | None:
    """The permission bits among facts; never those that let a file run as somebody else."""
    text = (facts or {}).get("mode", "")
    return int(text, 8) & 0o777 if text and set(text) <= set("01234567") else None


def write_atomically(storage: Storage, path: bytes, data: bytes, *, temporary: bytes) -> None:
    """Make a small file appear whole: written durably under another name, then renamed."""
    out = storage.create(temporary)
    try:
        out.write(data)
    finally:
        out.close()
    storage.rename(temporary, path)
    storage.sync([path.rpartition(b"/")[0]])


def left_by_a_copy(old: Storage, path: bytes, new: Storage, target: bytes) -> bool:
    """Whether a rename was killed half-way: the file is under its new name already, too."""
    if not old.copies:
        return False
    one, other = old.stat(path), new.stat(target)
    if one is None or other is None or one.size != other.size:
        return False
    if one.tag and one.tag == other.tag:
        return True
    with closing(old.open(path)) as first, closing(new.open(target)) as second:
        while data := first.read(1 << 20):
            if data != _exactly(second, len(data)):
                return False
    return True


def _exactly(file: Readable, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def read_whole(storage: Storage, path: bytes) -> bytes:
    """All bytes of a small file."""
    file = storage.open(path)
    try:
        pieces = []
        while piece := file.read(1 << 20):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        file.close()
