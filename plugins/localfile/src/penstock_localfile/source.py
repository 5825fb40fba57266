"""Files of a folder as a source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

import pyarrow as pa

from penstock.contracts import (
    Context,
    Part,
    ReplayableSource,
    at_least,
    connector,
    option,
)
from penstock_localfile.engine.discovery import Changed, Order, Rules
from penstock_localfile.engine.formats import Format, LinesFormat, WholeFormat
from penstock_localfile.engine.local import LocalStorage
from penstock_localfile.engine.names import divide, literal, matcher
from penstock_localfile.engine.parts import Packing
from penstock_localfile.engine.planner import FilePlanner


@connector
class LocalFiles(ReplayableSource):
    """Reads the files of a folder that every node sees, each once, and new ones as they come."""

    path: str = option(
        doc="A file, a folder, or a glob (`*`, `**`, `?`, `[a-z]`, `{one,two}`).",
        example="/data/in/*.log",
    )
    format: Literal["lines", "whole"] = option(
        default="lines", doc="`lines`: a row per line; `whole`: a row per file."
    )
    recursive: bool = option(default=False, doc="Look into the folders below, too.")
    hidden: bool = option(default=False, doc="Take names that begin with `.` or `_`, too.")
    min_age: float = option(
        default=0.0,
        unit="seconds",
        check=at_least(0),
        doc="Leave a file alone until its last change is so long ago.",
    )
    stable: float = option(
        default=0.0,
        unit="seconds",
        check=at_least(0),
        doc="Leave a file alone until its size and time have stayed the same for so long.",
    )
    marker: str = option(
        default="",
        doc="Leave a file alone until a file named like it plus this suffix is there.",
        example=".done",
    )
    order: Order = option(
        default="time", doc="Take files in the order of their modification `time`, or by `name`."
    )
    changed: Changed = option(
        default="error",
        doc="When a file that was already taken has other content: `error`, `ignore`, or "
        "`reprocess` it as a new version.",
    )
    split_bytes: int = option(
        default=64 << 20,
        unit="bytes",
        check=at_least(1),
        doc="Read larger files in ranges of this size at once, where the format allows it.",
    )
    parts: int = option(
        default=8,
        check=at_least(1),
        doc="Aim for so many tasks a batch, if there is enough to read.",
    )
    max_record_bytes: int = option(
        default=64 << 20,
        unit="bytes",
        check=at_least(1),
        doc="A longer line, or a larger whole file, is an error.",
    )

    def settle(self) -> None:
        """Refuse a glob that cannot be read."""
        matcher(divide(self.path)[1])

    def schema(self) -> pa.Schema:
        """The envelope."""
        return self._format().schema()

    def planner(self, ctx: Context) -> FilePlanner:
        """Lists the folder, and remembers in the state folder what it has seen."""
        storage, pattern = self._place()
        form = self._format()
        named = os.path.isfile(self._plain_path())
        rules = Rules(
            pattern=pattern,
            recursive=self.recursive,
            hidden=self.hidden or named,
            min_age=self.min_age,
            marker=self.marker,
            stable=self.stable,
            order=self.order,
            changed=self.changed,
        )
        packing = Packing(split=self.split_bytes, parts=self.parts, divisible=form.divisible)
        return FilePlanner(storage, rules, packing, form.cutting, ctx.state)

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The records of some files, or of a range of one."""
        storage, _ = self._place()
        form = self._format()
        for piece in part:
            yield from form.read(storage, piece)

    def check(self) -> None:
        """See that the folder is there and may be listed."""
        storage, _ = self._place()
        next(iter(storage.walk(recursive=False)), None)

    def _format(self) -> Format:
        if self.format == "whole":
            return WholeFormat(self.max_record_bytes)
        return LinesFormat(self.max_record_bytes)

    def _place(self) -> tuple[LocalStorage, str]:
        """The root folder, and the glob below it."""
        path = self._plain_path()
        if os.path.isfile(path):
            root, name = os.path.split(path)
            return LocalStorage(root or "."), literal(name)
        root, pattern = divide(path)
        return LocalStorage(root), pattern

    def _plain_path(self) -> str:
        return self.path.removeprefix("file://")
