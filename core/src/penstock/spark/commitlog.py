"""Spark's own record of a query: which batches are planned, and which are committed.

A checkpoint holds `offsets/N`, written before batch N runs, and `commits/N`, written when every
sink has it. Spark tells a source of a commit one batch late, or never; the folder tells at once.
"""

from __future__ import annotations

import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlparse

from penstock.contracts.errors import OptionError, ReadError
from penstock.contracts.source import Position

_ABSENT = "-"


class CommitLog:
    """Reads one checkpoint folder; never writes. Cheap enough to ask many times a second.

    Args:
        checkpoint: the query's checkpoint location: a path, or a URL of a filesystem that
            pyarrow can open.
    """

    def __init__(self, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        self._folder = _folder(checkpoint)
        self._newest: dict[str, int | None] = {"offsets": None, "commits": None}

    def planned(self) -> int | None:
        """The newest batch whose offsets are logged; None before the first."""
        return self._latest("offsets")

    def committed(self) -> int | None:
        """The newest batch that Spark has committed; None before the first."""
        return self._latest("commits")

    def offsets(self, batch: int) -> list[Position]:
        """Where each source of the query ended in this batch; empty if it is not (or no more) there.

        A source that had nothing to offer yet has no entry.
        """
        text = self._folder.text(f"offsets/{batch}")
        return [] if text is None else parse_offsets(text)

    def committed_offsets(self) -> list[Position]:
        """Where each source stood at the end of the newest committed batch."""
        newest = self.committed()
        return [] if newest is None else self.offsets(newest)

    def _latest(self, kind: str) -> int | None:
        # Batches are numbered without gaps, so the next name is asked for; only the first
        # question, or one after nothing was found, lists the folder.
        newest = self._newest[kind]
        if newest is None:
            numbers = [int(name) for name in self._folder.names(kind) if name.isdigit()]
            newest = max(numbers, default=None)
        while newest is not None and self._folder.exists(f"{kind}/{newest + 1}"):
            newest += 1
        self._newest[kind] = newest
        return newest


def parse_offsets(text: str) -> list[Position]:
    """The positions in an offset log entry, of format v1 (a line each) or v2 (`source:json`).

    Raises:
        ReadError: another format.
    """
    version, _, rest = text.partition("\n")
    lines = rest.split("\n")[1:]
    if version == "v1":
        found = [line for line in lines if line and line != _ABSENT]
    elif version == "v2":
        found = [line.partition(":")[2] for line in lines if line]
        found = [line for line in found if line and line != _ABSENT]
    else:
        raise ReadError(
            "the checkpoint's offset log has a format that is not known here",
            expected="v1 or v2",
            got=version[:40],
            fix="use a Spark version that this version of Penstock supports",
        )
    return [position for position in map(_position, found) if position is not None]


def _position(line: str) -> Position | None:
    try:
        value: Any = json.loads(line)
    except ValueError:
        return None  # a JVM source may write what it likes
    return value if isinstance(value, dict) else None


class Watcher:
    """Calls back from a thread of its own as soon as a batch is committed.

    `told` gets the positions of the newest committed batch; it may skip batches and is called
    again for a batch that was committed before the watcher began. An error it raises is kept and
    raised by `close`.
    """

    def __init__(
        self, log: CommitLog, told: Callable[[list[Position]], None], every: float = 0.05
    ) -> None:
        self._log = log
        self._told = told
        self._every = every
        self._seen: int | None = None
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._sweeping = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="penstock-commits", daemon=True)
        self._thread.start()

    def sweep(self) -> None:
        """Look now, on the caller's thread; returns when what was committed has been told."""
        with self._sweeping:
            newest = self._log.committed()
            if newest is None or newest == self._seen:
                return
            self._told(self._log.offsets(newest))
            self._seen = newest

    def close(self) -> None:
        """Look one last time, and end the thread."""
        self._ended.set()
        self._thread.join()
        self.sweep()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            try:
                self.sweep()
            except BaseException as error:  # it reaches the caller through close()
                self._error = error
                return


class _Folder(ABC):
    @abstractmethod
    def names(self, folder: str) -> list[str]: ...

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    @abstractmethod
    def text(self, path: str) -> str | None: ...


class _LocalFolder(_Folder):
    def __init__(self, root: str) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(os.path.join(self._root, folder))
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(os.path.join(self._root, path))

    def text(self, path: str) -> str | None:
        try:
            with open(os.path.join(self._root, path), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return None


class _ArrowFolder(_Folder):
    def __init__(self, url: str) -> None:
        import pyarrow as pa
        from pyarrow import fs

        try:
            self._fs, self._root = fs.FileSystem.from_uri(url)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise OptionError(
                "the checkpoint cannot be watched from Python",
                expected="a path, or a URL that pyarrow.fs opens (s3, gs, hdfs, abfs)",
                got=f"{url} ({error})",
                fix='put the checkpoint elsewhere, or choose ack="next-batch"',
            ) from error

    def names(self, folder: str) -> list[str]:
        from pyarrow import fs

        selector = fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        return [info.base_name for info in self._fs.get_file_info(selector)]

    def exists(self, path: str) -> bool:
        from pyarrow import fs

        kind = self._fs.get_file_info(f"{self._root}/{path}").type
        return bool(kind != fs.FileType.NotFound)

    def text(self, path: str) -> str | None:
        try:
            with self._fs.open_input_stream(f"{self._root}/{path}") as stream:
                return bytes(stream.read()).decode("utf-8")
        except FileNotFoundError:
            return None


def local_path(location: str) -> str | None:
    """The local folder a checkpoint or state location names; None if it is elsewhere."""
    parts = urlparse(location)
    if parts.scheme == "":
        return location
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    return None


def _folder(checkpoint: str) -> _Folder:
    path = local_path(checkpoint)
    return _ArrowFolder(checkpoint) if path is None else _LocalFolder(path)
