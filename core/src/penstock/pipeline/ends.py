"""Ends that are Spark's own: any format it reads or writes, a DataFrame, a function of one.

Nothing here imports pyspark: a DataFrame is whatever is handed in, and what must be asked of one
is asked when pyspark is loaded already.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from typing import Any, ClassVar, Literal

import pyarrow as pa

from penstock.contracts import Bytes, Columns, Secret, Type, connector, option
from penstock.contracts.errors import OptionError
from penstock.contracts.options import Configured
from penstock.contracts.sink import Promise
from penstock.pipeline.functions import Function
from penstock.pipeline.shapes import type_of, with_event_time

BATCH = "{batch}"
"""Stands in a path or an option of a sink for the batch's number."""


@connector
class SparkSource(Configured):
    """Rows that Spark reads, and which of their columns make up a record's envelope."""

    main: ClassVar[str | None] = None

    value: str | None = option(
        default=None,
        doc="The column that holds a record's bytes. The rows then are undecoded records, as "
        "after any byte-oriented connector; other columns are left out.",
    )
    key: str | None = option(default=None, doc="The column that holds a record's key.")
    event_time: str | None = option(
        default=None, doc="The column that holds a record's event time; else `event_time`."
    )
    id: str | None = option(default=None, doc="The column that holds a record's id.")
    stamp: list[str] | None = option(
        default=None,
        doc="Three columns: a record's origin, its part and its position there. Without them "
        "a merge-sort has no order to restore.",
        example="topic, partition, offset",
    )
    replayable: bool = option(
        default=False,
        doc="You state that Spark reads the same rows again after a crash, as it does from "
        "files, Delta and Kafka: exactly-once may then be kept.",
    )

    def settle(self) -> None:
        """A stamp has three parts."""
        if self.stamp is not None and len(self.stamp) != 3:
            raise OptionError(
                "a stamp is made of three columns",
                expected="origin, part and position",
                got=", ".join(self.stamp),
            )

    @property
    @abstractmethod
    def static(self) -> bool:
        """Whether it is read whole, once, in the first batch."""

    def bounded(self) -> bool:
        """What is read once, ends."""
        return self.static

    def gives(self) -> Type:
        """The type of its rows, where it can be known without asking Spark."""
        if self.value is not None:
            return Bytes()
        columns = self.columns()
        return Columns(None) if columns is None else type_of(with_event_time(columns))

    @abstractmethod
    def columns(self) -> pa.Schema | None:
        """The columns as declared, or None."""

    @abstractmethod
    def load(self, spark: Any) -> Any:
        """The DataFrame, as Spark gives it. On the driver."""

    def check(self) -> None:
        """Spark looks when it plans the query."""


@connector
class FormatSource(SparkSource):
    """Any format that Spark reads: parquet, delta, jdbc, its own kafka, ..."""

    main: ClassVar[str | None] = "format"

    format: str = option(doc="The format's name, as `spark.read.format` takes it.")
    path: str | None = option(default=None, doc="What to load, for formats that have paths.")
    stream: bool = option(
        default=False,
        doc="Read as a stream. Else what is there is read whole, once, in the first batch.",
    )
    schema: str | None = option(
        default=None,
        doc="The columns as Spark DDL. A stream of files needs it; other steps know the columns "
        "at analysis by it.",
    )
    options: dict[str, str | Secret] = option(
        prefix="option.", doc="The format's own options, as Spark takes them."
    )

    @property
    def static(self) -> bool:
        """As declared."""
        return not self.stream

    def columns(self) -> pa.Schema | None:
        """Of the declared schema."""
        if self.schema is None:
            return None
        from penstock.coders.ddl import parse_ddl

        return parse_ddl(self.schema)

    def load(self, spark: Any) -> Any:
        """With Spark's own reader."""
        reader = (spark.readStream if self.stream else spark.read).format(self.format)
        if self.schema is not None:
            reader = reader.schema(self.schema)
        reader = reader.options(**plain(self.options))
        return reader.load() if self.path is None else reader.load(self.path)


@connector
class FrameSource(SparkSource):
    """A DataFrame of the user's, static or streaming."""

    frame: Any = option(doc="The DataFrame.")

    @property
    def static(self) -> bool:
        """As Spark says."""
        return not self.frame.isStreaming

    def columns(self) -> pa.Schema:
        """As Spark knows them."""
        types = importlib.import_module("penstock.spark.types")
        schema: pa.Schema = types.arrow_schema(self.frame.schema)
        return schema

    def load(self, spark: Any) -> Any:
        """As it was given."""
        return self.frame


@connector
class SparkSink(Configured):
    """A place that Spark, or a user's function, writes a DataFrame to, batch by batch."""

    main: ClassVar[str | None] = None

    columns: list[str] | None = option(
        default=None,
        doc="What is written, as Spark expressions; by default the record's own columns. Key, "
        "headers and id are in `_pen`.",
        example="_pen.key AS key, value",
    )

    @abstractmethod
    def promise(self) -> Promise:
        """What it keeps with these options."""

    @abstractmethod
    def write(self, frame: Any, batch: int) -> None:
        """Write one batch. On the driver; the same rows again after a crash."""

    def check(self) -> None:
        """Spark looks when it writes."""


@connector
class FormatSink(SparkSink):
    """Any format that Spark writes: parquet, delta, jdbc, its own kafka, ..."""

    main: ClassVar[str | None] = "format"

    format: str = option(doc="The format's name, as `frame.write.format` takes it.")
    path: str | None = option(
        default=None, doc="Where to save; `{batch}` in it stands for the batch's number."
    )
    table: str | None = option(default=None, doc="A table of the catalog to save to, not a path.")
    mode: Literal["append", "overwrite"] = option(
        default="append",
        doc="append adds each batch to what is there. overwrite replaces it: with `{batch}` in "
        "the path each batch has a folder of its own, and one written again is there once.",
    )
    partition_by: list[str] | None = option(default=None, doc="Columns that folders are made of.")
    options: dict[str, str | Secret] = option(
        prefix="option.",
        doc="The format's own options, as Spark takes them; `{batch}` stands for the batch's "
        "number.",
    )

    def settle(self) -> None:
        """A path or a table."""
        if self.path is not None and self.table is not None:
            raise OptionError("path and table exclude each other", fix="drop one of them")

    @property
    def replaces(self) -> bool:
        """Whether a batch takes the place of the one before."""
        return self.mode == "overwrite" and BATCH not in (self.path or "")

    def promise(self) -> Promise:
        """Only a folder of its own, overwritten, holds a batch once whatever happens."""
        if self.mode == "overwrite" and not self.replaces:
            return Promise(replay="idempotent", atomic="batch")
        return Promise(replay="append", atomic="task")

    def write(self, frame: Any, batch: int) -> None:
        """With Spark's own writer."""
        own = {name: text.replace(BATCH, str(batch)) for name, text in plain(self.options).items()}
        writer = frame.write.format(self.format).mode(self.mode).options(**own)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        if self.table is not None:
            writer.saveAsTable(self.table)
        elif self.path is not None:
            writer.save(self.path.replace(BATCH, str(batch)))
        else:
            writer.save()


@connector
class FunctionSink(SparkSink):
    """A function that gets each batch as a DataFrame, with its number."""

    main: ClassVar[str | None] = "function"

    function: Function = option(
        doc="Called as `function(frame, batch)` on the driver; a batch may come again after a "
        "crash, with the same number and the same rows."
    )
    idempotent: bool = option(
        default=False, doc="You state that a batch given again changes nothing."
    )

    def promise(self) -> Promise:
        """As the user states."""
        return Promise(replay="idempotent" if self.idempotent else "append", atomic="batch")

    def write(self, frame: Any, batch: int) -> None:
        """Call it."""
        self.function.load()(frame, batch)


SOURCES: dict[str, type[SparkSource]] = {"dataframe": FrameSource, "spark": FormatSource}
SINKS: dict[str, type[SparkSink]] = {"dataframe": FunctionSink, "spark": FormatSink}


def plain(options: dict[str, str | Secret]) -> dict[str, str]:
    """A format's options as Spark wants them, secrets revealed."""
    return {k: v.reveal() if isinstance(v, Secret) else v for k, v in options.items()}
