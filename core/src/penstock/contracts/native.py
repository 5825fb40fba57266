"""Rows that Spark's own readers can give in a source's place.

An optional ability: a source of files says what Spark should read, the core makes a DataFrame of
it. A record that Spark reads itself never passes through Python. Nothing here imports Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import pyarrow as pa
from attrs import field, frozen

from penstock.contracts.source import Part


@frozen
class Stamped:
    """The stamp of a row that Spark reads, in Spark SQL over its columns and `_metadata`."""

    origin: str
    part: str
    position: str


@frozen
class SparkRead:
    """Whole files, and how Spark's rows of them become the rows that `read` gives.

    Attributes:
        format: Spark's name of their format.
        schema: What to ask Spark's reader for.
        paths: Absolute. Spark must show each as it is: no character that means something in a
            glob or is escaped in a URL, no name that Spark passes over.
        columns: Spark SQL over the reader's columns, by the name of the column it makes.
        stamp: None: Spark cannot tell a record's place in its file.
        options: Of Spark's reader.
        rows: How many records there are; None: not known before they are read.
        split: In a pipeline a task reads no more bytes than this, ...
        tasks: ... and so many tasks at least share what there is: a batch that is read again must
            lie in the same tasks, whatever machine that is on.
    """

    format: str
    schema: pa.Schema
    paths: tuple[str, ...]
    columns: Mapping[str, str]
    stamp: Stamped | None = None
    options: Mapping[str, str] = field(factory=dict)
    rows: int | None = None
    split: int = 64 << 20
    tasks: int = 8


class ReadsInSpark(ABC):
    """A `ReplayableSource` with files that Spark may read itself."""

    @abstractmethod
    def reads_in_spark(self, *, stamps: bool) -> bool:
        """Whether the options let Spark read at all. Pure.

        `stamps` False: nobody asks for the stamps or the errors of these records.
        """

    @abstractmethod
    def in_spark(self, parts: Sequence[Part], *, stamps: bool) -> SparkRead | None:
        """What Spark should read for these parts, if it gives the very rows that `read` gives.

        Called on the driver, once per batch, and only where the options allow it. May look into
        the files. Must return None where there is any doubt: `read` is asked then.
        """
